/// What the checks want to know of the system: the places that the configuration names.
package struct DoctorQuestions: Hashable, Sendable {
    package var stateFolder: String
    /// The main file first.
    package var configurationFiles: [String]
    /// `nil`: not named in the configuration; a service manager may have handed one over.
    package var tokenFile: String?
    /// A client certificate stands in for the token.
    package var isTokenOptional = false
    package var clientCertificateFile: String?
    package var clientKeyFile: String?
    package var authoritiesFile: String?
    package var proxyCredentialsFile: String?
    package var socketPath: String?
    /// Of interest for reverse path filtering.
    package var interfaces: [String] = []

    package init(stateFolder: String, configurationFiles: [String]) {
        self.stateFolder = stateFolder
        self.configurationFiles = configurationFiles
    }
}
