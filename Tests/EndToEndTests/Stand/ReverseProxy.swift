import Foundation
import Glibc
import ProcessStand

/// A real proxy before the hub, with nothing said to it but where the hub is: all limits are the program's own.
struct ReverseProxy {
    enum Program: String, Sendable, CaseIterable {
        case nginx, haproxy, apache2

        var path: String { "/usr/sbin/\(rawValue)" }
        var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: path) }
    }

    let url: String
    private let child: Child

    /// Ready when this returns.
    ///
    /// - Parameter hub: The port of the hub on the loopback.
    init(_ program: Program, before hub: UInt16, in folder: String) async throws {
        let port = try FreePorts.take(1)[0]
        url = "http://127.0.0.1:\(port)"
        let (file, log) = ("\(folder)/\(program.rawValue).conf", "\(folder)/\(program.rawValue).log")
        let (text, arguments): (String, [String])
        switch program {
        case .nginx:
            arguments = ["-p", folder, "-c", file, "-e", "stderr"]
            text = """
                daemon off; pid \(folder)/nginx.pid; error_log stderr; \(geteuid() == 0 ? "user root;" : "")
                events {}
                http {
                    access_log off;
                    client_body_temp_path \(folder)/nginx-body; proxy_temp_path \(folder)/nginx-proxy;
                    fastcgi_temp_path \(folder)/nginx-fastcgi; uwsgi_temp_path \(folder)/nginx-uwsgi; scgi_temp_path \(folder)/nginx-scgi;
                    server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(hub); } }
                }
                """
        case .haproxy:
            arguments = ["-db", "-f", file]
            // It has no times of its own, and warns of that; these are those of its manual's first example.
            text = """
                defaults
                    mode http
                    timeout connect 5000ms
                    timeout client 50000ms
                    timeout server 50000ms
                frontend all
                    bind 127.0.0.1:\(port)
                    default_backend hub
                backend hub
                    server hub 127.0.0.1:\(hub)
                """
        case .apache2:
            arguments = ["-f", file, "-DFOREGROUND"]
            let modules = ["mpm_event", "authz_core", "reqtimeout", "proxy", "proxy_http"]
            text = """
                ServerRoot "\(folder)"
                ServerName hub.test
                Listen 127.0.0.1:\(port)
                PidFile \(folder)/apache2.pid
                DefaultRuntimeDir \(folder)
                ErrorLog /dev/stderr
                \(modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }.joined(separator: "\n"))
                \(geteuid() == 0 ? "User www-data\nGroup www-data" : "")
                ProxyPass / http://127.0.0.1:\(hub)/
                """
        }
        try Stand.write(text + "\n", to: file)
        child = try Child([program.path] + arguments, log: log)
        while child.isRunning, !Self.listens(port) { await Pause.short() }
        guard child.isRunning else {
            throw StandError("\(program.rawValue) did not start:\n" + ((try? String(contentsOfFile: log, encoding: .utf8)) ?? ""))
        }
    }

    func stop() async {
        await child.stop()
    }

    private static func listens(_ port: UInt16) -> Bool {
        let descriptor = FreePorts.socket()
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafeBytes(of: &address) { bytes in
            connect(descriptor, bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count)) == 0
        }
    }
}
