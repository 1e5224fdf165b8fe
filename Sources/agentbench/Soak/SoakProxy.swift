import BenchKit
import Glibc

/// A reverse proxy before the hub of a soak: nginx, with TLS on both sides, that refuses requests as configured.
final class SoakProxy {
    enum Manner: Equatable {
        case passes
        /// Answers this status to everything, as while an ingress is replaced.
        case answers(Int)
        /// Answers 413 to bodies above this number of bytes.
        case limits(bytes: Int)
    }

    static let port = 7434

    private let hub: CabledHub
    private let folder: String
    private let target: String
    private let program: String

    /// - Returns: `nil` where nginx is not installed.
    init?(before hub: CabledHub, in folder: String) throws {
        guard let program = CabledHub.path("nginx") else { return nil }
        (self.hub, self.folder, self.program) = (hub, folder, program)
        target = hub.url
        try write(configuration(.passes), to: file)
        try hub.runThere([program, "-c", file, "-e", "\(folder)/nginx.log"])
    }

    func become(_ manner: Manner) throws {
        try write(configuration(manner), to: file)
        try hub.runThere([program, "-c", file, "-e", "\(folder)/nginx.log", "-s", "reload"])
    }

    func stop() {
        // The end of the hub's namespace would only remove its network, and leave it running.
        try? hub.runThere([program, "-c", file, "-e", "\(folder)/nginx.log", "-s", "stop"])
    }

    private var file: String { "\(folder)/nginx.conf" }

    private func configuration(_ manner: Manner) -> String {
        let rule =
            switch manner {
            case .passes: "client_max_body_size 64m; location / { proxy_pass \(target); }"
            case .answers(let status): "location / { return \(status); }"
            case .limits(let bytes): "client_max_body_size \(bytes); location / { proxy_pass \(target); }"
            }
        return """
            user root; worker_processes 1; pid \(folder)/nginx.pid; error_log \(folder)/nginx.log;
            events { worker_connections 256; }
            http {
                access_log off; client_body_temp_path \(folder)/body; proxy_temp_path \(folder)/answers;
                fastcgi_temp_path \(folder)/unused1; uwsgi_temp_path \(folder)/unused2; scgi_temp_path \(folder)/unused3;
                server {
                    listen \(CabledHub.address):\(SoakProxy.port) ssl;
                    ssl_certificate \(folder)/hub.pem; ssl_certificate_key \(folder)/hub.key;
                    proxy_http_version 1.1; proxy_set_header Connection "";
                    \(rule)
                }
            }

            """
    }
}
