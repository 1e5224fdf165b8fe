import SyncCore

/// The content that a medium must have, and may have, at one place of a log.
///
/// Every change of content or names is kept in its order, with the mark whether a sync has covered it. A state that a cut can leave is all
/// that was covered, and of the rest what a ``CutPolicy`` picks. Covered changes before the first one that is not covered are folded
/// together, so that a long log costs no more than a short one.
package struct Disk {
    private let log: IOLog
    /// Number of entries of the log that have happened.
    package private(set) var place = 0

    private var files: [File] = []
    /// The file that an inode is at the moment: numbers are used again.
    private var present: [UInt64: Int] = [:]
    private var names: [String: Int] = [:]
    /// The same as the program sees it, with all that is not durable yet.
    private var seen: [String: Int] = [:]
    private var folders: Set<String> = [""]
    fileprivate var nameChanges: [NameChange] = []
    /// The places in the log at which syncs began that have not returned.
    private var syncs: [UInt64: (place: Int, inode: UInt64, folder: String?)] = [:]

    private struct File {
        var settled: [UInt8] = []
        var changes: [Change] = []
    }

    /// A change of content: a write, or a cut to a length.
    private struct Change {
        var place: Int
        var offset: Int
        /// `nil` for a cut.
        var data: Range<Int>?
        var isDurable = false
        /// A sync that covered it has failed: the kernel has let go of it, and the next sync says nothing about it.
        var isLost = false
    }

    fileprivate struct NameChange {
        var place: Int
        var kind: IOLog.Kind
        var path: String
        var target = ""
        /// The file that has the name; `nil` for a folder.
        var file: Int?
        var isStrictlyDurable = false
        var isInJournal = false
    }

    package init(_ log: IOLog) {
        self.log = log
    }

    // MARK: - Forward

    /// Lets happen what stands before `place` in the log.
    package mutating func advance(to place: Int) {
        while self.place < min(place, log.records.count) {
            take(log.records[self.place])
            self.place += 1
        }
    }

    private mutating func take(_ record: IOLog.Record) {
        switch record.kind {
        case .found:
            let file = makeFile(record.inode)
            files[file].settled = Array(log.bytes[record.data])
            names[record.path] = file
            seen[record.path] = file
        case .makeFolder where record.place == 1: folders.insert(record.path)
        case .create:
            let file = makeFile(record.inode)
            seen[record.path] = file
            nameChanges.append(NameChange(place: place, kind: .create, path: record.path, file: file))
        case .write: add(Change(place: place, offset: Int(record.place), data: record.data), to: record.inode)
        case .truncate: add(Change(place: place, offset: Int(record.place), data: nil), to: record.inode)
        case .rename, .link: giveName(record.kind, record.path, log.text(record))
        case .remove, .makeFolder:
            seen[record.path] = nil
            nameChanges.append(NameChange(place: place, kind: record.kind, path: record.path))
        case .sync: syncs[record.place] = (place, record.inode, nil)
        case .syncFolder: syncs[record.place] = (place, record.inode, record.path)
        case .synced: if let sync = syncs.removeValue(forKey: record.place) { settle(sync.place, sync.inode, sync.folder) }
        case .unsynced: if let sync = syncs.removeValue(forKey: record.place) { lose(sync.place, sync.inode) }
        case .sent: break
        }
    }

    /// Gives a file a name. A move between two folders is two changes, each durable with the sync of its own folder.
    private mutating func giveName(_ kind: IOLog.Kind, _ path: String, _ target: String) {
        let file = seen[path]
        if let file { seen[target] = file }
        if kind == .rename { seen[path] = nil }
        let isMove = kind == .rename && Self.parents(of: path)[0] != Self.parents(of: target)[0]
        nameChanges.append(NameChange(place: place, kind: isMove && file != nil ? .link : kind, path: path, target: target, file: file))
        if isMove, file != nil { nameChanges.append(NameChange(place: place, kind: .remove, path: path)) }
    }

    private mutating func makeFile(_ inode: UInt64) -> Int {
        files.append(File())
        present[inode] = files.count - 1
        return files.count - 1
    }

    private mutating func add(_ change: Change, to inode: UInt64) {
        let file = present[inode] ?? makeFile(inode)
        files[file].changes.append(change)
    }

    private mutating func settle(_ begin: Int, _ inode: UInt64, _ folder: String?) {
        if folder == nil, let file = present[inode] {
            for index in files[file].changes.indices {
                let change = files[file].changes[index]
                if change.place < begin, !change.isLost { files[file].changes[index].isDurable = true }
            }
            let known = files[file].changes.prefix { $0.isDurable }
            for change in known { Self.apply(change, log.bytes, to: &files[file].settled) }
            files[file].changes.removeFirst(known.count)
        }
        for index in nameChanges.indices where nameChanges[index].place < begin {
            nameChanges[index].isInJournal = true
            if let folder, nameChanges[index].folder == folder { nameChanges[index].isStrictlyDurable = true }
        }
        let known = nameChanges.prefix { $0.isStrictlyDurable }
        for change in known { Self.apply(change, &names, &folders) }
        nameChanges.removeFirst(known.count)
    }

    private mutating func lose(_ begin: Int, _ inode: UInt64) {
        guard let file = present[inode] else { return }
        for index in files[file].changes.indices where files[file].changes[index].place < begin {
            files[file].changes[index].isLost = true
        }
    }

    // MARK: - What a cut leaves

    /// Files by their path, and folders, relative to the folder.
    package struct State {
        package var files: [String: [UInt8]] = [:]
        package var folders: Set<String> = []
    }

    /// - Precondition: ``advance(to:)`` went to the place of the cut.
    package func state(after cut: Cut) -> State {
        precondition(cut.place == place, "the disk is at \(place), the cut at \(cut.place)")
        var random = SeededRandom(seed: cut.seed)
        let moment = moment(of: cut, using: &random)
        var (names, folders) = (names, folders)
        var isJournalCut = false
        for change in nameChanges {
            let isDurable = cut.names == .strict ? change.isStrictlyDurable : change.isInJournal
            if !isDurable {
                switch cut.policy {
                case .nothing: continue
                case .everything: break
                case .prefix: if change.place > moment { continue }
                case .subset, .torn512, .torn4096:
                    // A journal is cut at one place; elsewhere any change may be missing.
                    if cut.names == .strict {
                        if Bool.random(using: &random) { continue }
                    } else {
                        if !isJournalCut { isJournalCut = Int.random(in: 0..<4, using: &random) == 0 }
                        if isJournalCut { continue }
                    }
                }
            }
            Self.apply(change, &names, &folders)
        }
        var state = State()
        state.folders = folders.filter { folder in !folder.isEmpty && Self.parents(of: folder).allSatisfy(folders.contains) }
        // In an order of its own, so that a seed always draws the same.
        for (path, file) in names.sorted(by: { $0.key < $1.key }) where Self.parents(of: path).allSatisfy(folders.contains) {
            state.files[path] = bytes(of: files[file], cut.policy, moment, using: &random)
        }
        return state
    }

    /// Returns the last change that survives under ``CutPolicy/prefix``; later ones are lost.
    private func moment(of cut: Cut, using random: inout SeededRandom) -> Int {
        guard cut.policy == .prefix else { return cut.place }
        var open = nameChanges.filter { !$0.isStrictlyDurable }.map(\.place)
        for file in files { open += file.changes.lazy.filter { !$0.isDurable }.map(\.place) }
        return open.sorted().randomElement(using: &random) ?? cut.place
    }

    private func bytes(of file: File, _ policy: CutPolicy, _ moment: Int, using random: inout SeededRandom) -> [UInt8] {
        var content = file.settled
        for change in file.changes {
            if change.isDurable {
                Self.apply(change, log.bytes, to: &content)
                continue
            }
            switch policy {
            case .nothing: continue
            case .everything: Self.apply(change, log.bytes, to: &content)
            case .prefix: if change.place <= moment { Self.apply(change, log.bytes, to: &content) }
            case .subset: if Bool.random(using: &random) { Self.apply(change, log.bytes, to: &content) }
            case .torn512, .torn4096:
                switch Int.random(in: 0..<3, using: &random) {
                case 0: continue
                case 1: Self.apply(change, log.bytes, to: &content)
                default: tear(change, policy.sector ?? 512, &content, using: &random)
                }
            }
        }
        return content
    }

    private static func apply(_ change: Change, _ log: [UInt8], to content: inout [UInt8]) {
        guard let data = change.data else {
            if change.offset < content.count {
                content.removeLast(content.count - change.offset)
            } else {
                content.append(contentsOf: repeatElement(0, count: change.offset - content.count))
            }
            return
        }
        put(log[data], at: change.offset, into: &content)
    }

    private static func put(_ data: ArraySlice<UInt8>, at offset: Int, into content: inout [UInt8]) {
        let end = offset + data.count
        if end > content.count { content.append(contentsOf: repeatElement(0, count: end - content.count)) }
        content.replaceSubrange(offset..<end, with: data)
    }

    /// Some sectors of a write: the first ones, the last ones, or any.
    private func tear(_ change: Change, _ sector: Int, _ content: inout [UInt8], using random: inout SeededRandom) {
        guard let data = change.data else { return }
        var pieces: [Range<Int>] = []
        var start = data.lowerBound
        while start < data.upperBound {
            let offset = change.offset + start - data.lowerBound
            let end = min(data.upperBound, start + sector - offset % sector)
            pieces.append(start..<end)
            start = end
        }
        let edge = Int.random(in: 0...pieces.count, using: &random)
        let way = Int.random(in: 0..<3, using: &random)
        for (index, piece) in pieces.enumerated() {
            let isKept =
                switch way {
                case 0: index < edge
                case 1: index >= edge
                default: Bool.random(using: &random)
                }
            if isKept { Self.put(log.bytes[piece], at: change.offset + piece.lowerBound - data.lowerBound, into: &content) }
        }
    }

    // MARK: - Names

    private static func apply(_ change: NameChange, _ names: inout [String: Int], _ folders: inout Set<String>) {
        switch change.kind {
        case .create: names[change.path] = change.file
        case .link: names[change.target] = change.file
        case .remove:
            names[change.path] = nil
            folders.remove(change.path)
        case .makeFolder: folders.insert(change.path)
        case .rename:
            if let file = change.file {
                names[change.path] = nil
                names[change.target] = file
            }
            guard folders.remove(change.path) != nil else { return }
            folders.insert(change.target)
            let start = change.path + "/"
            for (path, file) in names where path.hasPrefix(start) {
                names[path] = nil
                names[change.target + "/" + path.dropFirst(start.count)] = file
            }
            for path in folders where path.hasPrefix(start) {
                folders.remove(path)
                folders.insert(change.target + "/" + path.dropFirst(start.count))
            }
        case .write, .truncate, .sync, .syncFolder, .synced, .unsynced, .sent, .found: break
        }
    }

    /// `a/b/c` is in `a/b`, in `a`, in the folder itself.
    static func parents(of path: String) -> [String] {
        var parents: [String] = []
        var rest = Substring(path)
        while let slash = rest.lastIndex(of: "/") {
            rest = rest[..<slash]
            parents.append(String(rest))
        }
        return parents + [""]
    }
}

extension Disk.NameChange {
    /// The folder whose sync makes it durable.
    fileprivate var folder: String { Disk.parents(of: target.isEmpty ? path : target)[0] }
}
