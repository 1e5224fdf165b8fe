import Agent
import Glibc
import SyncCore
import SyncLinux

/// The bearer token: from the configured file, otherwise from the systemd credential `hub-token`.
struct HubCredentials: Sendable {
    private let path: String?
    private let isOptional: Bool
    private let secrets = SecretFiles.ofThisProcess()

    init(_ hub: AgentConfiguration.Hub) {
        let credential = getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) + "/hub-token" }
        path = hub.tokenFile ?? credential
        // A client certificate is a credential as well.
        isOptional = hub.clientCertificateFile != nil && hub.tokenFile == nil
    }

    /// Reads a secret for a header of an existing backend: from the file of that path, or the systemd credential of that name.
    static func secret(_ file: String) throws(LinuxError) -> String {
        if file.hasPrefix("/") { return try SecretFiles.ofThisProcess().readToken(file) }
        guard let folder = getenv("CREDENTIALS_DIRECTORY").map({ String(cString: $0) }) else {
            throw LinuxError(
                .missing, doing: "read the credential \(file)", expected: "LoadCredential=\(file):PATH in the unit, or an absolute path")
        }
        return try SecretFiles.ofThisProcess().readToken(folder + "/" + file)
    }

    /// Adds the path of a token that the service manager passed, which is in no configuration.
    func completing(_ questions: DoctorQuestions) -> DoctorQuestions {
        var questions = questions
        questions.tokenFile = path
        questions.proxyCredentialsFile = questions.proxyCredentialsFile ?? secrets.credential(HTTPProxy.credentialName)
        return questions
    }

    /// - Throws: A `LinuxError` with the fault of the file, without a byte of its content.
    func token() throws(LinuxError) -> String? {
        guard let path else {
            if isOptional { return nil }
            throw LinuxError(
                .missing, doing: "read the hub token", expected: "hub.token_file in the configuration, or the credential hub-token")
        }
        do throws(LinuxError) {
            return try secrets.readToken(path)
        } catch {
            if isOptional, error.code == .missing { return nil }
            throw error
        }
    }
}
