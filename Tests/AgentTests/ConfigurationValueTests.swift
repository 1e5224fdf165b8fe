import Agent
import SyncCore
import Testing

struct ConfigurationValueTests {
    struct Address: Sendable {
        var text: String
        var normal: String
        var host: String
        var port: Int
        var path = ""
        var isLoopback = false
    }

    @Test(
        "A server's address is taken apart, and written in one way",
        arguments: [
            Address(
                text: "https://hub.example.com", normal: "https://hub.example.com", host: "hub.example.com", port: 443),
            Address(
                text: "https://Hub.Example.COM/", normal: "https://hub.example.com", host: "hub.example.com", port: 443),
            Address(
                text: "https://hub:8443/a/b%20c/", normal: "https://hub:8443/a/b%20c", host: "hub", port: 8_443,
                path: "/a/b%20c"),
            Address(
                text: "https://xn--hb-xka.example", normal: "https://xn--hb-xka.example", host: "xn--hb-xka.example",
                port: 443),
            Address(
                text: "https://192.0.2.7:65535", normal: "https://192.0.2.7:65535", host: "192.0.2.7", port: 65_535),
            Address(
                text: "https://[2001:DB8::1]:443", normal: "https://[2001:db8::1]:443", host: "2001:db8::1", port: 443),
            Address(
                text: "http://localhost", normal: "http://localhost", host: "localhost", port: 80, isLoopback: true),
            Address(
                text: "http://LOCALHOST:1", normal: "http://localhost:1", host: "localhost", port: 1, isLoopback: true),
            Address(
                text: "http://127.0.0.1:8080", normal: "http://127.0.0.1:8080", host: "127.0.0.1", port: 8_080,
                isLoopback: true),
            Address(
                text: "http://127.255.0.9", normal: "http://127.255.0.9", host: "127.255.0.9", port: 80,
                isLoopback: true),
            Address(text: "http://[::1]:8080", normal: "http://[::1]:8080", host: "::1", port: 8_080, isLoopback: true),
            Address(
                text: "http://[0:0:0:0:0:0:0:1]", normal: "http://[0:0:0:0:0:0:0:1]", host: "0:0:0:0:0:0:0:1", port: 80,
                isLoopback: true),
            Address(
                text: "http://[::ffff:127.0.0.1]", normal: "http://[::ffff:127.0.0.1]", host: "::ffff:127.0.0.1",
                port: 80),
            Address(
                text: "http://localhost.example.com", normal: "http://localhost.example.com",
                host: "localhost.example.com", port: 80),
        ])
    func addresses(_ example: Address) throws {
        let url = try ServiceURL(example.text)
        #expect(url.text == example.normal)
        #expect(url.host == example.host && url.port == example.port && url.path == example.path)
        #expect(url.isSecure == example.text.hasPrefix("https"))
        #expect(url.isLoopback == example.isLoopback)
        #expect(try ServiceURL(url.text) == url)
    }

    @Test(
        "A text that two programs could read as two addresses is refused",
        arguments: [
            "", "https://", "https:///a", "https:hub", "HTTPS://hub", "//hub", "https://hub:", "https://hub:+1",
            "https://hub:080", "https://hub:65536",
            "https://hub:99999999999999999999", "https://hub:80:80", "https://-hub", "https://hub-", "https://hub..x",
            "https://.hub", "https://hub.",
            "https://hub_x", "https://hub%41", "https://127.1", "https://2130706433", "https://0x7f.0.0.1",
            "https://0x7f000001", "https://127.0.0.01",
            "https://127.0.0.256", "https://127.0.0.1.5", "https://0.0.0.0", "https://1.2.3", "https://[::1",
            "https://::1", "https://[]", "https://[::1]x",
            "https://[fe80::1%eth0]", "https://[1:2:3:4:5:6:7]", "https://[1:2:3:4:5:6:7:8:9]", "https://[1::2::3]",
            "https://[:::]", "https://[12345::]",
            "https://[::+1]", "https://[1:2:3:4:5:6:7:1.2.3.4]", "https://[::1.2.3]", "https://[1.2.3.4::]",
            "https://[:1:2:3:4:5:6:7]", "https://hub/a//b",
            "https://hub/../a", "https://hub/a/..", "https://hub/./a", "https://hub/%4", "https://hub/%zz",
            "https://hub/a\\b", "https://hub/<x>",
            "https://hub?x", "https://hub#x", "https://hub/?", "https://a@hub", "https://a:b@hub", "https://hub/@",
            "https://hub\u{7f}",
            "https://" + String(repeating: "a", count: 64), "https://hub/" + String(repeating: "a", count: 2_048),
        ])
    func refusedAddresses(text: String) {
        #expect(throws: ServiceURL.Refusal.self) { try ServiceURL(text) }
    }

    @Test(
        "A pattern matches interface names",
        arguments: [
            ("eth0", "eth0", true), ("eth0", "eth1", false), ("eth0", "eth00", false), ("wwan*", "wwan0", true),
            ("wwan*", "wwan", true),
            ("wwan*", "xwwan0", false), ("*", "anything", true), ("*", "", true), ("en?s*", "enp0s3", false),
            ("en*s*", "enp0s3", true),
            ("?", "", false), ("?th0", "eth0", true), ("*0", "eth10", true), ("*1*0", "eth10", true),
            ("a*b*c", "axbxb", false),
            ("**", "x", true), ("*a*a*a*a*b", "aaaaaaaaaaaaaaa", false), ("eth?", "eth", false),
        ])
    func patterns(pattern: String, name: String, matches: Bool) throws {
        #expect(try #require(InterfacePattern(pattern)).matches(name) == matches)
    }

    @Test(
        "A pattern is visible ASCII without a slash",
        arguments: ["", "a b", "a/b", "ä", "a\n", String(repeating: "x", count: 65)])
    func refusedPatterns(text: String) {
        #expect(InterfacePattern(text) == nil)
    }

    @Test("The first rule that matches an interface counts")
    func linkRules() throws {
        let configuration = try ConfigurationFixtures.configuration(
            "links: [{ match: eth1, prefer: 1 }, { match: \"eth*\", prefer: 2 }]\n")
        #expect(configuration.linkRule(for: "eth1")?.prefer == 1)
        #expect(configuration.linkRule(for: "eth0")?.prefer == 2)
        #expect(configuration.linkRule(for: "wlan0") == nil)
    }

    @Test(
        "A window is written in one way",
        arguments: [
            ("22:00-05:00", "22:00-05:00"), ("mon-sun 09:00-17:30", "09:00-17:30"),
            ("fri-mon 00:00-24:00", "mon,fri,sat,sun 00:00-24:00"),
            ("sun,sat,sat 00:00-00:01", "sat,sun 00:00-00:01"), ("wed 23:59-00:00", "wed 23:59-00:00"),
        ])
    func windows(text: String, normal: String) throws {
        let window = try #require(TimeWindow(text))
        #expect(window.text == normal)
        #expect(TimeWindow(normal) == window)
    }

    @Test(
        "A text that is no window is refused",
        arguments: [
            "", "22:00", "22:00-", "-05:00", "22:00-22:00", "24:00-05:00", "22:00-24:01", "22:60-23:00", "25:00-26:00",
            "2:00-5:00", "22.00-23.00",
            "mon", "mon-", "mon 22:00", "Mon 22:00-23:00", "monday 22:00-23:00", "mon,, 22:00-23:00",
            "mon-tue-wed 22:00-23:00", "mon  22:00-23:00",
            " 22:00-23:00", "22:00-23:00 mon", "mon tue 22:00-23:00", "22:00 - 23:00", "٢2:00-23:00",
        ])
    func refusedWindows(text: String) {
        #expect(TimeWindow(text) == nil)
    }

    @Test(
        "A window includes its first minute, excludes its last, and may run past midnight",
        arguments: [
            ("09:00-17:00", TimeWindow.Day.mon, 539, false), ("09:00-17:00", .mon, 540, true),
            ("09:00-17:00", .mon, 1_019, true),
            ("09:00-17:00", .mon, 1_020, false), ("fri 22:00-05:00", .fri, 1_319, false),
            ("fri 22:00-05:00", .fri, 1_320, true),
            ("fri 22:00-05:00", .sat, 299, true), ("fri 22:00-05:00", .sat, 300, false),
            ("fri 22:00-05:00", .sat, 1_320, false),
            ("fri 22:00-05:00", .fri, 0, false), ("sun 22:00-05:00", .mon, 0, true),
            ("sat 00:00-24:00", .sat, 1_439, true),
            ("sat 00:00-24:00", .sun, 0, false),
        ])
    func insideWindows(text: String, day: TimeWindow.Day, minute: Int, isInside: Bool) throws {
        #expect(try #require(TimeWindow(text)).contains(day, minute: minute) == isInside)
    }
}
