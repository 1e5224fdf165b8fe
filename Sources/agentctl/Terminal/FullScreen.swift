import Glibc
import SyncCore
import SyncLinux
import Synchronization

/// The whole terminal: its alternate screen, without a cursor and without echo. However the program ends, the terminal is restored.
///
/// A frame redraws only the lines that differ from the last one, in one write, so nothing flickers and little is sent over a slow line.
final class FullScreen: Sendable {
    /// The thing to do after a wait.
    enum Action { case nothing, redraw, quit }

    private struct State {
        var before: termios
        var shown: [String] = []
        var isOurs = false
    }

    private let state: Mutex<State>
    private let signals: Mutex<TerminalSignals?>
    /// Wakes the thread that waits for keys.
    private let waker: (read: Int32, write: Int32)

    /// - Returns: `nil` where there is no suitable terminal.
    init?() throws(LinuxError) {
        var before = termios()
        guard Environment.isTerminal(STDIN_FILENO), Environment.isTerminal(STDOUT_FILENO), Environment.value("TERM") != "dumb",
            tcgetattr(STDIN_FILENO, &before) == 0
        else { return nil }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        // A signal handler must never wait for the drawing thread.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        waker = (ends[0], ends[1])
        state = Mutex(State(before: before))
        signals = Mutex(nil)
        let listener = try TerminalSignals { [weak self] signal in self?.heard(signal) }
        signals.withLock { $0 = listener }
        enter()
    }

    var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Shows these lines, the first one at the top.
    func draw(_ lines: [String]) {
        state.withLock { state in
            guard state.isOurs else { return }
            var text = ""
            for (index, line) in lines.enumerated() where index >= state.shown.count || state.shown[index] != line {
                // Erased first: after a line that fills the screen, the cursor is still in its last column.
                text += "\u{1B}[\(index + 1);1H\u{1B}[K\(TerminalText.escaped(line))"
            }
            if state.shown.count > lines.count { text += "\u{1B}[\(lines.count + 1);1H\u{1B}[J" }
            state.shown = lines
            // Terminals that support it show the frame as a whole; others ignore it.
            if !text.isEmpty { Self.write("\u{1B}[?2026h" + text + "\u{1B}[?2026l") }
        }
    }

    /// Waits for a key, a new size, or the end of the time.
    func wait(_ milliseconds: Int32) -> Action {
        var waiting = [
            pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0), pollfd(fd: waker.read, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&waiting, 2, milliseconds) > 0 else { return .nothing }
        var bytes = [UInt8](repeating: 0, count: 64)
        if waiting[1].revents != 0 { _ = read(waker.read, &bytes, bytes.count) }
        guard waiting[0].revents != 0 else { return .redraw }
        let count = read(STDIN_FILENO, &bytes, bytes.count)
        // The terminal is gone, or Ctrl-D was pressed.
        if count <= 0 || bytes.prefix(count).contains(where: { $0 == UInt8(ascii: "q") || $0 == UInt8(ascii: "Q") || $0 == 4 }) {
            return .quit
        }
        return .redraw
    }

    /// Restores the terminal.
    func close() {
        leave()
        signals.withLock { $0 }?.close()
    }

    private func heard(_ signal: TerminalSignals.Signal) {
        switch signal {
        case .end(let number):
            leave()
            TerminalSignals.die(by: number)
        case .suspended:
            leave()
            kill(getpid(), SIGSTOP)
        case .resumed:
            enter()
            wake()
        case .resized:
            // The present content of the screen is unknown.
            state.withLock { state in
                guard state.isOurs else { return }
                state.shown = []
                Self.write("\u{1B}[2J")
            }
            wake()
        }
    }

    private func wake() {
        var byte: UInt8 = 1
        _ = Glibc.write(waker.write, &byte, 1)
    }

    private func enter() {
        state.withLock { state in
            guard !state.isOurs else { return }
            state.isOurs = true
            state.shown = []
            var ours = state.before
            ours.c_lflag &= ~tcflag_t(ECHO | ICANON)
            tcsetattr(STDIN_FILENO, TCSADRAIN, &ours)
            // Alternate screen, cursor hidden, no wrapping at the right edge, cleared.
            Self.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l\u{1B}[2J")
        }
    }

    private func leave() {
        state.withLock { state in
            guard state.isOurs else { return }
            state.isOurs = false
            Self.write("\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l")
            var before = state.before
            tcsetattr(STDIN_FILENO, TCSADRAIN, &before)
        }
    }

    /// Writes like ``Output``, but the reading side detects a missing terminal.
    private static func write(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)[...]
            while !rest.isEmpty {
                let count = Glibc.write(STDOUT_FILENO, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { return }
            }
        }
    }
}
