extension Schema {
    /// Times of the parts of a mutation, for those that an earlier one was merged into (`Payload.stamps`).
    static let stamps = """
        -- Outside of sum where it is NULL: see Payload.
        ALTER TABLE payload ADD COLUMN stamps TEXT;
        """
}
