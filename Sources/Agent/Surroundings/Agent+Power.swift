import LocalAPI
import Logging
import SyncCore
import SyncHTTP

// The power supply.
extension Agent {
    func watchPower() {
        environment.power?.watch(sysfsRoot: loaded.configuration.power.sysfsRoot) { [weak self] readings in
            self?.onLoop { $0.receive(readings) }
        }
    }

    private func receive(_ readings: [PowerSupplyReading]?) {
        guard !hasStopped else { return }
        let now = environment.time.now().instant
        let before = around.power
        around.supplies = readings
        guard around.power.update(readings, loaded.configuration.powerThresholds, now: now) else { return }
        let (state, level) = (around.power.state, around.power.level)
        if before.level != level || before.state.source != state.source {
            log.notice(
                "power",
                metadata: [
                    "source": "\(state.source.rawValue)", "percent": "\(state.percent.map(String.init) ?? "-")",
                    "level": "\(level.rawValue)",
                ])
            journal(.power, EventPayload.power(powerState))
        }
        tellConditions()
    }

    /// The state in the form of the local API.
    var powerState: LocalAPI.PowerState {
        let state = around.power.state
        return LocalAPI.PowerState(
            source: state.source.rawValue, percent: state.percent.map(Int64.init), isDischarging: state.isDischarging,
            level: around.power.level.rawValue, warning: state.warning)
    }

    func showPower(_ call: LocalCall) {
        let supplies = (around.supplies ?? []).map { reading in
            PowerAnswer.Supply(
                name: reading.name, type: reading.text(.type), status: reading.text(.status),
                percent: reading.number(.capacity).flatMap { $0 <= 100 ? $0 : nil }, ignoredBecause: reading.whyIgnored)
        }
        call.answer(PowerAnswer(powerState, supplies: supplies).answer)
    }
}

extension PowerSupplyReading {
    /// The reason why a supply is ignored; `nil` when it counts.
    fileprivate var whyIgnored: String? {
        if isOurs { return nil }
        if text(.type) == nil { return "its type cannot be read" }
        if text(.scope) == "Device" { return "it feeds a device, not this machine" }
        if text(.present) == "0" { return "it is not present" }
        return "its port gives power instead of taking it"
    }
}
