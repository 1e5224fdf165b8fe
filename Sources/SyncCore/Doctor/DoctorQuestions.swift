/// The questions of the checks to the system: the places that the configuration names.
package struct DoctorQuestions: Hashable, Sendable {
    package var stateFolder: String
    /// Paths of the configuration files, the main file first.
    package var configurationFiles: [String]
    /// Path of the token file; `nil`: not configured, but a service manager may have passed one.
    package var tokenFile: String?
    /// A client certificate replaces the token, and a backend that is no hub knows none.
    package var isTokenOptional = false
    package var clientCertificateFile: String?
    package var clientKeyFile: String?
    package var authoritiesFile: String?
    package var proxyCredentialsFile: String?
    package var socketPath: String?
    /// Interfaces to check for reverse path filtering.
    package var interfaces: [String] = []

    package init(stateFolder: String, configurationFiles: [String]) {
        self.stateFolder = stateFolder
        self.configurationFiles = configurationFiles
    }
}
