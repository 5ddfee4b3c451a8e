internal import PerdureModel
import Synchronization

/// How many calls of one plugin run at once.
///
/// Calls that are soon over (hooks, sections and calls of the plugin itself) have one slot for
/// themselves; where there is only one, they come first.
final class CallSlots: Sendable {
  /// What kind of call wants a slot.
  enum Use: Sendable { case work, quick }

  private struct State {
    var quick = 0
    var work = 0
    var waitingQuick: [SlotTicket] = []
    var waitingWork: [SlotTicket] = []
  }

  private let count: Int
  /// Whether work leaves one slot to others.
  private let keepsOne: Bool
  private let state = Mutex(State())

  /// Makes `count` slots.
  init(_ count: Int, keepsOne: Bool = true) {
    self.count = count
    self.keepsOne = keepsOne && count > 1
  }

  private func isFree(_ use: Use, _ state: State) -> Bool {
    guard state.quick + state.work < count else { return false }
    return use == .quick || !keepsOne || state.work < count - 1
  }

  /// Takes a slot if one is free and nobody waits for it.
  func take(_ use: Use) -> Bool {
    state.withLock { state in
      let isFirst =
        state.waitingQuick.isEmpty && (use == .quick || state.waitingWork.isEmpty)
      guard isFirst, isFree(use, state) else { return false }
      Self.count(use, 1, &state)
      return true
    }
  }

  private static func count(_ use: Use, _ change: Int, _ state: inout State) {
    switch use {
    case .work: state.work += change
    case .quick: state.quick += change
    }
  }

  /// Waits for a slot; the ticket says when there is one.
  func request(_ use: Use) -> SlotTicket {
    let ticket = SlotTicket(self, use)
    state.withLock { state in
      if use == .quick {
        state.waitingQuick.append(ticket)
      } else {
        state.waitingWork.append(ticket)
      }
    }
    serve()
    return ticket
  }

  /// Gives a slot back.
  func give(_ use: Use) {
    let ticket = state.withLock { state in
      Self.count(use, -1, &state)
      return next(&state)
    }
    guard let ticket else { return }
    ticket.grant()
    serve()
  }

  private func serve() {
    while let ticket = state.withLock({ next(&$0) }) { ticket.grant() }
  }

  private func next(_ state: inout State) -> SlotTicket? {
    if !state.waitingQuick.isEmpty, isFree(.quick, state) {
      state.quick += 1
      return state.waitingQuick.removeFirst()
    }
    if !state.waitingWork.isEmpty, isFree(.work, state) {
      state.work += 1
      return state.waitingWork.removeFirst()
    }
    return nil
  }

  /// Ends a wait; `false` if the slot had been granted.
  fileprivate func withdraw(_ ticket: SlotTicket) -> Bool {
    state.withLock { state in
      let before = state.waitingQuick.count + state.waitingWork.count
      state.waitingQuick.removeAll { $0 === ticket }
      state.waitingWork.removeAll { $0 === ticket }
      return state.waitingQuick.count + state.waitingWork.count < before
    }
  }
}

/// The wait of one call for a slot.
final class SlotTicket: Sendable {
  private let slots: CallSlots
  private let use: CallSlots.Use
  private let answer = OneShot<Bool>()

  fileprivate init(_ slots: CallSlots, _ use: CallSlots.Use) {
    self.slots = slots
    self.use = use
  }

  fileprivate func grant() { answer.fire(true) }

  /// Ends the wait, unless it is over.
  func cancel() { if slots.withdraw(self) { answer.fire(false) } }

  /// Waits for the slot; `false` if the wait was ended.
  func value() async -> Bool { await answer.value() }
}

/// The waits of one call, to end them all.
final class SlotWaits: Sendable {
  private let state = Mutex<(tickets: [SlotTicket], isCancelled: Bool)>(([], false))

  func add(_ ticket: SlotTicket) {
    let isCancelled = state.withLock { state in
      state.tickets.append(ticket)
      return state.isCancelled
    }
    if isCancelled { ticket.cancel() }
  }

  func cancel() {
    let tickets = state.withLock { state in
      state.isCancelled = true
      return state.tickets
    }
    for ticket in tickets { ticket.cancel() }
  }
}

/// What a call holds: given back when it is over and the plugin's code has returned from it.
final class HeldPermits: Sendable {
  private let release: @Sendable () -> Void
  private let state = Mutex<State>(State())

  private struct State {
    var inside = 0
    var over = false
    var given = false
  }

  init(_ release: @escaping @Sendable () -> Void) { self.release = release }

  /// Notes that the plugin's code is about to be entered.
  func enter() { state.withLock { $0.inside += 1 } }

  /// Notes that the plugin's code has returned.
  func leave() { change { $0.inside -= 1 } }

  /// Notes that nobody waits for the call any more; may be said twice.
  func finish() { change { $0.over = true } }

  private func change(_ body: (inout State) -> Void) {
    let last = state.withLock { state in
      body(&state)
      guard state.over, state.inside == 0, !state.given else { return false }
      state.given = true
      return true
    }
    if last { release() }
  }
}

extension PluginCore {
  /// Takes what a call must hold; `nil` if a wait for it was ended.
  ///
  /// A call that is made in the course of another one of this plugin holds nothing: that one would
  /// wait for it for ever. `waits` is given each wait, so that it can be ended.
  func hold(
    _ own: CallSlots?,
    _ use: CallSlots.Use,
    at task: TaskID?,
    port: () -> (any ContributionPort)?,
    waits: (SlotTicket) -> Void
  ) async -> HeldPermits? {
    var taken: [CallSlots] = []
    for slots in [own, slots].compactMap(\.self) {
      if slots.take(use) {
        taken.append(slots)
        continue
      }
      if await isWithinCall(at: task, port()) { continue }
      let ticket = slots.request(use)
      waits(ticket)
      guard await ticket.value() else {
        for slots in taken { slots.give(use) }
        return nil
      }
      taken.append(slots)
    }
    let held = taken
    return HeldPermits { for slots in held { slots.give(use) } }
  }

  /// Whether a call at `task` is made in the course of another one of this plugin.
  func isWithinCall(at task: TaskID?, _ port: (any ContributionPort)?) async -> Bool {
    guard let task else { return false }
    let live = liveCalls
    // A task has one call at a time, but for what runs inside a wrap or in the course of a phase.
    if live.contains(where: { $0.kind != .tool && $0.place.task == task }) { return true }
    let tasks = Set(live.compactMap(\.place.task))
    if tasks.isEmpty { return false }
    guard let above = try? await port?.tasksAbove() else { return false }
    return !tasks.isDisjoint(with: above)
  }
}
