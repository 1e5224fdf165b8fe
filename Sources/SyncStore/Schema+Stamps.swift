extension Schema {
    /// When parts of a mutation were made, of those that took in an earlier one (`Payload.stamps`).
    static let stamps = """
        -- Outside of sum where it is NULL: see Payload.
        ALTER TABLE payload ADD COLUMN stamps TEXT;
        """
}
