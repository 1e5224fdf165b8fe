import Foundation
import Glibc

/// A folder for one test alone.
enum NewFolder {
    /// - Parameter prefix: Its path but for six characters more.
    static func make(_ prefix: String) throws -> String {
        var template = Array("\(prefix).XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw StandError("mkdtemp: \(String(cString: strerror(errno)))") }
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
