import SyncCore

// Mutations that belong together: atomic lists, and parents that the device does not receive and which count as missing (PROTOCOL A16).
extension Simulation {
    /// Checks that a list is accepted as a whole or not at all, and that no answer to a member names a record of others.
    func checkLists(_ push: IncomingPush, _ answer: PushResponse, _ device: DeviceID) throws(Broken) {
        var index = 0
        while index < push.items.count {
            var end = index + 1
            if let group = push.items[index].group {
                while end < push.items.count, push.items[end].group == group { end += 1 }
            }
            let members = Array(zip(push.items[index..<end], answer.results[index..<end]))
            index = end
            guard members.count > 1, !members.allSatisfy({ $1.verdict.isInEffect }) else { continue }
            if let (item, _) = members.first(where: { $1.verdict.isNew }) {
                throw Broken(
                    "a list is taken as a whole", "\(name(of: item.key)) is accepted, and another member of its list is not")
            }
            if members.contains(where: { $1.verdict.problem?.code == Problem.forbidden }) { count("lists with a forbidden member refused") }
            for (item, result) in members { try checkNames(result.verdict.problem, of: item, members.compactMap(\.0.record), device) }
        }
    }

    private func checkNames(
        _ problem: Problem?, of item: IncomingItem, _ names: [RecordName], _ device: DeviceID
    ) throws(Broken) {
        guard scenario.sharesOut, let problem else { return }
        for name in names where name != item.record && oracle.shares.isHidden(name, from: device) {
            guard problem.detail.contains(name.description) else { continue }
            // The member itself names the record as its parent.
            if case .success(let mutation) = item.content, name.entity == Shares.orders,
                mutation.content.data["order"]?.text.map({ sameBytes($0, name.id.text) }) == true
            {
                continue
            }
            throw Broken("a list names only what the device may see", "\(self.name(of: item.key)) is told: \(problem.detail)")
        }
    }

    /// Checks that a child of a record of others is refused like a child of a missing one. A child is also refused if the mutation that
    /// was to create its parent was not accepted.
    ///
    /// Call this with the shares as they were before the push.
    func checkKin(_ push: IncomingPush, _ answer: PushResponse, _ device: DeviceID) throws(Broken) {
        guard scenario.hasParents else { return }
        var failed: Set<RecordName> = []
        var isChanged: Set<RecordName> = []
        for (item, result) in zip(push.items, answer.results) {
            if case .success(let mutation) = item.content, mutation.record.entity == Shares.jobs,
                let parent = mutation.content.data["order"]?.text.map({ RecordName(Shares.orders, RecordID(trusted: $0)) }),
                failed.contains(parent), !isChanged.contains(parent)
            {
                let isHidden = oracle.shares.isHidden(parent, from: device)
                guard isHidden || !oracle.shares.isLive(parent) else { continue }
                if result.verdict.isNew {
                    throw Broken(
                        "a parent of others is missing",
                        "\(name(of: item.key)) is accepted under \(parent), which \(isHidden ? "is of others" : "was not made")")
                }
                guard ["parent-rejected", "dependency-missing"].contains(result.verdict.problem?.code) else { continue }
                count(isHidden ? "children of parents of others refused" : "children of parents refused")
            }
            guard let name = item.record else { continue }
            if result.verdict.isInEffect {
                isChanged.insert(name)
                failed.remove(name)
            } else {
                failed.insert(name)
            }
        }
    }
}

extension PushResult.Verdict {
    /// The mutation was accepted now or before.
    fileprivate var isInEffect: Bool {
        switch self {
        case .accepted, .duplicate(.accepted, _): true
        case .duplicate, .conflict, .rejected, .retry: false
        }
    }

    fileprivate var isNew: Bool {
        if case .accepted = self { true } else { false }
    }

    fileprivate var problem: Problem? {
        switch self {
        case .rejected(let problem, _): problem
        case .retry(let problem, _): problem
        case .accepted, .duplicate, .conflict: nil
        }
    }
}
