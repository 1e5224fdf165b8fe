extension Schema {
    /// For taking back what the hub has (`Store+Undo.swift`). Only entities that ask for it have rows here, and mutations that were taken
    /// back.
    static let undo = """
        -- before: EarlierValues, NULL where none were kept. undone_seq: the mutation that takes this one back.
        CREATE TABLE undo_value (
            seq INTEGER PRIMARY KEY,
            before TEXT,
            undone_seq INTEGER
        ) STRICT;
        """
}
