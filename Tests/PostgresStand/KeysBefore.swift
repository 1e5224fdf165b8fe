/// The table of keys as schema 13 of the hub had it, made of the present ones.
package enum KeysBefore {
    /// A UUID that carries a number, as an agent makes it.
    package static func uuid(_ n: Int) -> String {
        let digits = String(n, radix: 16)
        return "0199c3f2-a1b4-7007-8000-" + String(repeating: "0", count: 12 - digits.count) + digits
    }

    /// The tables of the present schema become those of schema 13.
    package static let statements = """
        \(table("keys_13", of: "true"));
        DROP VIEW mutation_key_earlier; DROP TABLE mutation_key, mutation_key_text, device_number;
        ALTER TABLE keys_13 RENAME TO mutation_key;
        ALTER INDEX keys_13_pkey RENAME TO mutation_key_pkey;
        ALTER INDEX keys_13_payload RENAME TO mutation_key_payload;
        UPDATE hub_schema SET version = 13, oldest_reader = 13;
        """

    /// Makes a table of before with the keys for which `condition` is true.
    package static func table(_ name: String, of condition: String) -> String {
        """
        CREATE TABLE \(name)(
          device TEXT COLLATE "C" NOT NULL,
          key TEXT COLLATE "C" NOT NULL,
          fingerprint BYTEA NOT NULL CHECK (length(fingerprint) = 16),
          seq BIGINT,
          status BIGINT NOT NULL CHECK (status BETWEEN 0 AND 2),
          version BIGINT NOT NULL,
          payload TEXT,
          at_ms BIGINT NOT NULL,
          PRIMARY KEY (device, key));
        INSERT INTO \(name) SELECT d.device, CAST(k.key AS TEXT), uuid_send(k.fingerprint),
          coalesce(k.seq, CAST(CAST('x' || right(CAST(k.key AS TEXT), 11) AS BIT(44)) AS BIGINT)), k.status, k.version, k.payload,
          coalesce(k.at_ms, 1) FROM mutation_key k JOIN device_number d ON d.number = k.device WHERE \(condition);
        INSERT INTO \(name) SELECT d.device, k.key, uuid_send(k.fingerprint), k.seq, k.status, k.version, k.payload, coalesce(k.at_ms, 1)
          FROM mutation_key_text k JOIN device_number d ON d.number = k.device WHERE \(condition);
        CREATE INDEX \(name)_payload ON \(name)(at_ms) WHERE payload IS NOT NULL
        """
    }
}
