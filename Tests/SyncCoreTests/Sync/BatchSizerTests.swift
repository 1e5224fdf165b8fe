import SyncCore
import Testing

@Suite("Batch size")
struct BatchSizerTests {
    typealias Rig = EngineRig

    private static let quick: Duration = .milliseconds(100)

    @Test("Full batches double while answers take less than a second, up to 500 and 1 MiB")
    func grows() {
        var sizer = BatchSizer()
        #expect(sizer.mutations == 50)
        #expect(sizer.bytes == 256 << 10)
        for expected in [100, 200, 400, 500, 500] {
            sizer.succeeded(Rig.batch(1...Int64(sizer.mutations)), after: Self.quick, growing: true)
            #expect(sizer.mutations == expected)
        }
        #expect(sizer.bytes == 1 << 20)
    }

    @Test("Slow answers, small batches and settling grow nothing")
    func staysSmall() {
        var sizer = BatchSizer()
        sizer.succeeded(Rig.batch(1...50), after: .seconds(1), growing: true)
        sizer.succeeded(Rig.batch(1...49), after: Self.quick, growing: true)
        sizer.succeeded(Rig.batch(1...50), after: Self.quick, growing: false)
        #expect(sizer.mutations == 50)
    }

    @Test("The hub's limits hold, but a mutation of any size must fit")
    func hubLimits() {
        var sizer = BatchSizer()
        sizer.limit(mutations: 8, bytes: 10)
        #expect(sizer.mutations == 8)
        #expect(sizer.bytes == Limits.mutationBytes)
        sizer.succeeded(Rig.batch(1...8), after: Self.quick, growing: true)
        #expect(sizer.mutations == 8)
        sizer.limit(mutations: 0, bytes: 0)
        #expect(sizer.mutations == 1)
        sizer.limit(mutations: .max, bytes: .max)
        sizer.succeeded(Rig.batch(1...1), after: Self.quick, growing: true)
        #expect(sizer.mutations == 2)
    }

    @Test("An atomic list is as small as a batch gets")
    func atomicList() {
        var sizer = BatchSizer()
        let list = Rig.list(1...3)
        let triesAtOnce = sizer.failed(list, isCertain: true)
        #expect(!triesAtOnce)
        #expect(sizer.isPoison(list))
        #expect(!sizer.isPoison(Rig.batch(1...3)))
        _ = sizer.setAside(list.mutations[0].key)
        sizer.succeeded(list, after: Self.quick, growing: false)
        for next in Int64(1)...4 { sizer.succeeded(Rig.batch(9 + next...9 + next), after: Self.quick, growing: false) }
        #expect(!sizer.isPoison(list), "it has passed, and the search is over")
    }

    @Test("Two failures may be anything; the third in a row over the same batch starts the search, with backoff between")
    func threeStrikes() {
        var sizer = BatchSizer()
        let batch = Rig.batch(1...8)
        let said1 = sizer.failed(batch, isCertain: false)
        #expect(!said1)
        let said2 = sizer.failed(batch, isCertain: false)
        #expect(!said2)
        #expect(sizer.mutations == 50)
        let said3 = sizer.failed(batch, isCertain: false)
        #expect(!said3)
        #expect(sizer.mutations == 4)
    }

    @Test("A success in between, or another batch, starts the count anew")
    func strikesReset() {
        var sizer = BatchSizer()
        for batch in [Rig.batch(1...8), Rig.batch(1...8), Rig.batch(2...8), Rig.batch(1...8), Rig.batch(1...8)] {
            _ = sizer.failed(batch, isCertain: false)
        }
        sizer.succeeded(Rig.batch(1...8), after: Self.quick, growing: true)
        _ = sizer.failed(Rig.batch(1...8), isCertain: false)
        #expect(sizer.mutations == 50)
    }

    @Test("A clear word about the request halves at once, down to one", arguments: [2, 3, 7, 50])
    func certain(_ count: Int64) {
        var sizer = BatchSizer()
        var size = count
        var steps = 0
        while size > 1 {
            let goesOn = sizer.failed(Rig.batch(1...size), isCertain: true)
            #expect(goesOn)
            #expect(sizer.mutations == max(1, Int(size) / 2))
            size = Int64(sizer.mutations)
            steps += 1
        }
        #expect(steps <= 5)
        let alone = Rig.batch(1...1)
        let goesOn = sizer.failed(alone, isCertain: true)
        #expect(!goesOn)
        #expect(sizer.isPoison(alone))
    }

    @Test("After four good batches the search is over and the size is back")
    func searchEnds() {
        var sizer = BatchSizer()
        _ = sizer.failed(Rig.batch(1...2), isCertain: true)
        #expect(sizer.mutations == 1)
        for seq in Int64(1)...4 {
            #expect(sizer.mutations == 1)
            sizer.succeeded(Rig.batch(seq...seq), after: Self.quick, growing: true)
        }
        #expect(sizer.mutations == 50)
        #expect(!sizer.isPoison(Rig.batch(9...9)))
    }

    @Test("A mutation is to blame only once others pass: a hub that fails over everything uses up no attempts")
    func fault() {
        var sizer = BatchSizer()
        let poison = Rig.batch(1...1)
        _ = sizer.failed(Rig.batch(1...2), isCertain: true)
        _ = sizer.failed(poison, isCertain: true)
        let said4 = sizer.setAside(poison.mutations[0].key)
        #expect(!said4, "nothing has passed yet")
        let said5 = sizer.setAside(poison.mutations[0].key)
        #expect(!said5, "nor since")
        sizer.succeeded(Rig.batch(2...2), after: Self.quick, growing: true)
        #expect(sizer.isPoison(poison))
        let said6 = sizer.setAside(poison.mutations[0].key)
        #expect(said6)
        let said7 = sizer.setAside(poison.mutations[0].key)
        #expect(!said7, "each failure needs its own evidence")
    }

    @Test("A mutation that failed alone needs no new search, however much has passed since")
    func remembered() {
        var sizer = BatchSizer()
        let poison = Rig.batch(1...1)
        _ = sizer.failed(Rig.batch(1...2), isCertain: true)
        _ = sizer.failed(poison, isCertain: true)
        _ = sizer.setAside(poison.mutations[0].key)
        for seq in Int64(2)...20 { sizer.succeeded(Rig.batch(seq...seq), after: Self.quick, growing: true) }
        let size = sizer.mutations
        let said8 = sizer.failed(poison, isCertain: false)
        #expect(!said8)
        #expect(sizer.isPoison(poison))
        let said9 = sizer.setAside(poison.mutations[0].key)
        #expect(said9)
        #expect(sizer.mutations == size, "the others keep their pace")
        sizer.succeeded(poison, after: Self.quick, growing: true)
        #expect(!sizer.isPoison(poison), "what passed is forgiven")
    }

    @Test("Its memory is bounded")
    func bounded() {
        var sizer = BatchSizer()
        for seq in Int64(1)...1_000 {
            _ = sizer.setAside(Rig.mutation(seq).key)
            sizer.succeeded(Rig.batch(5_000...5_001), after: Self.quick, growing: false)
        }
        let known = (Int64(1)...1_000).filter { sizer.isPoison(Rig.batch($0...$0)) }
        #expect(known.count == 64)
        #expect(known.last == 1_000)
    }
}
