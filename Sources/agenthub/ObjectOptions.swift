import ArgumentParser
import Glibc
import HubServer
import Logging
import SyncCore
import SyncLinux

/// Files in an object store instead of the folder. The credentials are never arguments, because all users can read those.
struct ObjectOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Keep the files in a bucket of an S3-compatible object store instead of the folder, for any number of replicas. The "
                + "credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of --s3-credentials.",
            valueName: "s3://bucket/prefix"))
    var blobs: String?

    @Option(help: ArgumentHelp("URL of the object store; default: Amazon's in the region.", valueName: "url"))
    var s3Endpoint: String?

    @Option(help: ArgumentHelp("Region of the object store; default: us-east-1.", valueName: "name"))
    var s3Region: String?

    @Option(
        help: ArgumentHelp(
            "File with aws_access_key_id and aws_secret_access_key, as Amazon's tools write it. No other user may be able to read it.",
            valueName: "file"))
    var s3Credentials: String?

    @Option(help: ArgumentHelp("Trusted issuers of the object store's certificate, PEM; default: the system's.", valueName: "file"))
    var s3Ca: String?

    func validate() throws {
        guard blobs != nil || [s3Endpoint, s3Region, s3Credentials, s3Ca].allSatisfy({ $0 == nil }) else {
            throw ValidationError("--s3-endpoint, --s3-region, --s3-credentials and --s3-ca need --blobs s3://bucket/prefix")
        }
        _ = try place()
    }

    private func place() throws(ValidationError) -> ObjectStorePlace? {
        guard let blobs else { return nil }
        do throws(HubError) {
            return try ObjectStorePlace(blobs, endpoint: s3Endpoint, region: s3Region ?? "us-east-1")
        } catch {
            throw ValidationError("the object store (--blobs, --s3-endpoint, --s3-region): \(error.detail)")
        }
    }

    /// The store, if one was named, after a check of its permissions.
    ///
    /// - Throws: 77 when it refuses the hub, 78 when the credentials cannot be used. A store that does not answer within 5 s does not
    ///   prevent the start: records sync without it.
    func storage(_ log: Logger) throws -> ObjectBlobs? {
        guard let place = try place() else { return nil }
        if place.travelsOpenly {
            log.warning("files travel unencrypted to the object store", metadata: ["hint": "give an endpoint with https://"])
        }
        let store = ObjectStore(
            place, try credentials(), caFile: s3Ca, transport: try CurlTransport(name: "s3", idleConnections: 4, idleAge: .seconds(20)),
            time: SystemClocks(), newDigest: { FileHash() },
            report: { change in
                switch change {
                case .away(let error):
                    log.error("the object store does not answer", metadata: ["doing": "\(error.doing)", "error": "\(error.detail)"])
                case .busy(let error):
                    log.warning("the object store failed a request", metadata: ["doing": "\(error.doing)", "error": "\(error.detail)"])
                case .back: log.notice("the object store answers again")
                }
            })
        let blobs = ObjectBlobs(store)
        do throws(BlobError) {
            try blobs.tryOut(within: ObjectBlobs.trialTime)
            log.info("files are kept in an object store", metadata: ["place": "\(place)"])
        } catch {
            guard error.code == .away else { throw Failure(77, error.description) }
        }
        return blobs
    }

    private func credentials() throws -> ObjectStoreCredentials {
        if let s3Credentials {
            do {
                return try ObjectStoreCredentials(
                    reading: String(decoding: try SecretFiles.ofThisProcess().read(s3Credentials), as: UTF8.self))
            } catch let error as HubError {
                throw Failure(78, "\(error.doing), \(s3Credentials): \(error.detail)")
            } catch let error as LinuxError {
                throw Failure(78, error.description)
            }
        }
        func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 } }
        guard let key = variable("AWS_ACCESS_KEY_ID"), let secret = variable("AWS_SECRET_ACCESS_KEY") else {
            throw Failure(
                78,
                "there are no credentials for the object store: expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, "
                    + "or --s3-credentials FILE")
        }
        guard let made = ObjectStoreCredentials(keyID: key, secret: secret, sessionToken: variable("AWS_SESSION_TOKEN")) else {
            throw Failure(
                78, "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN: expected visible ASCII, found another character")
        }
        return made
    }
}
