import Agent
import Glibc
import SyncCore
import SyncLinux

/// The bearer token: from the configured file, else from the systemd credential `hub-token`.
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

    /// For a header of an existing backend: the file of that path, or the systemd credential of that name.
    static func secret(_ file: String) throws(LinuxError) -> String {
        if file.hasPrefix("/") { return try SecretFiles.ofThisProcess().readToken(file) }
        guard let folder = getenv("CREDENTIALS_DIRECTORY").map({ String(cString: $0) }) else {
            throw LinuxError(.missing, doing: "read the credential \(file)", expected: "LoadCredential=\(file):PATH in the unit, or an absolute path")
        }
        return try SecretFiles.ofThisProcess().readToken(folder + "/" + file)
    }

    /// A token that the service manager handed over is named nowhere else.
    func completing(_ questions: DoctorQuestions) -> DoctorQuestions {
        var questions = questions
        questions.tokenFile = path
        questions.proxyCredentialsFile = questions.proxyCredentialsFile ?? secrets.credential(HTTPProxy.credentialName)
        return questions
    }

    /// - Throws: `LinuxError` that says what is wrong with the file, without a byte of its content.
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
