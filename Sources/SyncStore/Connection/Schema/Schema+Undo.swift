extension Schema {
    /// Data to undo changes that the hub has accepted (`Store+Undo.swift`). Only entities that ask for it, mutations that were undone, and
    /// mutations that were under way when the hub deleted their record have rows here.
    static let undo = """
        -- before: EarlierValues, NULL where none were kept. undone_seq: the mutation that takes this one back.
        CREATE TABLE undo_value (
            seq INTEGER PRIMARY KEY,
            before TEXT,
            undone_seq INTEGER
        ) STRICT;
        """
}
