import SyncCore
import Testing

@Suite("Objects of many members")
struct JSONObjectTests {
    @Test("An object does what a plain list of members would do, whatever its size", arguments: [3, 16, 17, 18, 40, 200])
    func isLikeAList(_ names: Int) {
        var random = SeededRandom(seed: UInt64(names))
        var object = JSONObject()
        var model: [(name: String, value: Int)] = []
        for step in 0..<3_000 {
            let name = "n\(Int.random(in: 0..<names, using: &random))"
            let place = model.firstIndex { $0.name == name }
            if Int.random(in: 0..<3, using: &random) == 0 {
                object[name] = nil
                if let place { model.remove(at: place) }
            } else {
                object[name] = .int(step)
                if let place { model[place].value = step } else { model.append((name, step)) }
            }
            let isSame =
                object.count == model.count && object.isEmpty == model.isEmpty
                && object[name]?.int.map(Int.init) == model.first { $0.name == name }?.value
            guard isSame else { return #expect(isSame, "step \(step): \(object.json)") }
            guard step % 50 == 0 else { continue }
            #expect(object.names == model.map(\.name), "step \(step)")
            #expect(object.members.map { $0.value.int.map(Int.init) } == model.map { Optional($0.value) }, "step \(step)")
        }
    }

    @Test("A copy does not follow what its original becomes")
    func copies() {
        var object = JSONObject()
        for number in 0..<100 { object["n\(number)"] = .int(number) }
        let copy = object
        for number in 0..<30 { object["n\(number)"] = nil }
        object["n50"] = "changed"
        object["new"] = true
        #expect(copy.count == 100 && copy["n3"] == 3 && copy["n50"] == 50 && copy["new"] == nil)
        #expect(object.count == 71 && object["n3"] == nil && object["n50"] == "changed" && object["new"] == true)
    }

    @Test("Names are found by their meaning: escapes do not matter, normalisation does")
    func names() throws {
        let members = (0..<40).map { "\"n\($0)\":\($0)" } + [#""\u0041":"escaped""#, #""é":"composed""#]
        let object = try #require(try JSONReader.read("{\(members.joined(separator: ","))}").object)
        #expect(object["A"] == "escaped")
        #expect(object["\u{E9}"] == "composed")
        #expect(object["e\u{301}"] == nil)
    }

    @Test("The order of members and their escapes change neither equality nor hash", arguments: [5, 60])
    func equality(_ count: Int) throws {
        let members = (0..<count).map { #""n\#($0)":{"v":\#($0)}"# }
        let plain = try JSONReader.read("{\(members.joined(separator: ","))}")
        let turned = try JSONReader.read("{\(members.reversed().joined(separator: ",").replacing("\"n", with: "\"\\u006e"))}")
        #expect(plain == turned && plain.hashValue == turned.hashValue)
        var object = try #require(turned.object)
        object["n0"] = ["v": 1]
        #expect(plain != .object(object))
    }

    #if ABLATIONS
        @Test("Two deep documents that differ in a leaf are told apart in one pass", arguments: [8, 16, 31])
        func deep(_ depth: Int) {
            func nested(_ leaf: JSON) -> JSON { (0..<depth).reduce(leaf) { value, _ in ["a": value, "b": 1] } }
            let (left, right) = (nested(1), nested(2))
            let visits = JSONWork.visits { #expect(left != right) }
            #expect(visits <= 2 * depth, "\(visits) visits at \(depth) levels")
        }
    #endif
}
