import Synchronization

/// One place of an id table.
///
/// The state word holds, from the top: generation (32 bits), phase (8), cancel reason (8), users (16).
@unsafe struct IdSlot: ~Copyable {
  let state: Atomic<UInt64>
  let next: Atomic<UInt32>
  /// Written by the one that opens the slot, before it is open; read by those that pinned it.
  var record: Unmanaged<AnyObject>?
}

/// Ids with generations for objects that a plugin refers to from any thread.
///
/// Every operation is one or a few compare-and-swaps. An object stays alive while somebody has its
/// slot pinned; the last one out releases it and frees the slot. Whoever made the table frees it when
/// nobody can come with an id any more.
// Safe: indices come from `index(of:)`, which checks bounds, and slots live as long as the table.
@safe struct IdTable: @unchecked Sendable {
  // @unchecked: what the pointers lead to is atomic, or owned by the one who moved the phase.
  private let slots: UnsafeMutablePointer<IdSlot>
  private let head: UnsafeMutablePointer<Atomic<UInt64>>
  private let capacity: UInt32
  private let kind: UInt64

  private static let open: UInt64 = 1 << 24
  private static let done: UInt64 = 2 << 24
  private static let phaseMask: UInt64 = 0xFF << 24
  private static let reasonMask: UInt64 = 0xFF << 16
  private static let userMask: UInt64 = 0xFFFF

  /// Makes a table; ids of two tables with different `kind` (0 or 1) never meet.
  init(capacity: UInt32, kind: UInt64) {
    self.capacity = capacity
    self.kind = kind << 31
    unsafe slots = .allocate(capacity: Int(capacity))
    unsafe head = .allocate(capacity: 1)
    // Generations from chance: an id of one plugin means nothing to another.
    let chance = UInt32.random(in: .min ... .max)
    for index in 0..<capacity {
      let generation = UInt64(chance &+ index &* 0x9E37_79B9) << 32
      let next = index + 1 < capacity ? index + 2 : 0
      unsafe (slots + Int(index)).initialize(
        to: IdSlot(state: Atomic(generation), next: Atomic(next), record: nil)
      )
    }
    unsafe head.initialize(to: Atomic(capacity > 0 ? 1 : 0))
  }

  /// Frees the slots; nothing may use the table or a copy of it any more.
  func free() {
    for index in 0..<Int(capacity) { unsafe slots[index].record?.release() }
    unsafe slots.deinitialize(count: Int(capacity)).deallocate()
    unsafe head.deinitialize(count: 1).deallocate()
  }

  /// Takes a free slot for `record`; `nil` if there is none.
  func open(_ record: AnyObject) -> UInt64? {
    guard let index = pop() else { return nil }
    let slot = unsafe slots + Int(index)
    unsafe slot.pointee.record = Unmanaged.passRetained(record)
    let old = unsafe slot.pointee.state.load(ordering: .relaxed)
    let generation = ((old >> 32) &+ 1) & 0xFFFF_FFFF
    unsafe slot.pointee.state.store(generation << 32 | Self.open, ordering: .releasing)
    return generation << 32 | kind | UInt64(index + 1)
  }

  /// Opens the slot of an id that the table of another process gave out.
  ///
  /// One thread does all of that, and `open` is not used then; `false` if the slot is not free.
  func adopt(_ id: UInt64, _ record: AnyObject) -> Bool {
    guard let index = index(of: id) else { return false }
    let slot = unsafe slots + index
    let state = unsafe slot.pointee.state.load(ordering: .acquiring)
    guard state & (Self.phaseMask | Self.userMask) == 0 else { return false }
    unsafe slot.pointee.record = Unmanaged.passRetained(record)
    unsafe slot.pointee.state.store((id >> 32) << 32 | Self.open, ordering: .releasing)
    return true
  }

  /// Whether an id was given out here, as far as the generation of its slot tells.
  func wasIssued(_ id: UInt64) -> Bool {
    guard let index = index(of: id) else { return false }
    let state = unsafe slots[index].state.load(ordering: .acquiring)
    let age = UInt32(truncatingIfNeeded: state >> 32) &- UInt32(truncatingIfNeeded: id >> 32)
    return Int32(bitPattern: age) >= 0
  }

  /// Keeps an open slot from being freed; `nil` if the id is over or never was.
  @inline(__always) func pin(_ id: UInt64) -> Int? { enter(id, becoming: Self.open) }

  /// Ends an id and pins its slot; only one caller ever gets it.
  @inline(__always) func claim(_ id: UInt64) -> Int? { enter(id, becoming: Self.done) }

  @inline(__always)
  private func enter(_ id: UInt64, becoming phase: UInt64) -> Int? {
    guard let index = index(of: id) else { return nil }
    let slot = unsafe slots + index
    var old = unsafe slot.pointee.state.load(ordering: .acquiring)
    while true {
      guard old >> 32 == id >> 32, old & Self.phaseMask == Self.open,
        old & Self.userMask < Self.userMask
      else { return nil }
      let new = (old & ~Self.phaseMask | phase) + 1
      let (exchanged, original) = unsafe slot.pointee.state.weakCompareExchange(
        expected: old,
        desired: new,
        ordering: .acquiring
      )
      if exchanged { return index }
      old = original
    }
  }

  /// Ends a pin; the last one after the claim frees the slot.
  @inline(__always) func unpin(_ index: Int) {
    let slot = unsafe slots + index
    let state = unsafe slot.pointee.state.wrappingSubtract(
      1,
      ordering: .acquiringAndReleasing
    ).newValue
    guard state & (Self.phaseMask | Self.userMask) == Self.done else { return }
    unsafe slot.pointee.record?.release()
    unsafe slot.pointee.record = nil
    unsafe slot.pointee.state.store((state >> 32) << 32, ordering: .releasing)
    push(UInt32(index))
  }

  /// Runs `body` with the object of a pinned slot, without counting references.
  @inline(__always) func withRecord<Record: AnyObject, Result>(
    _ index: Int,
    as type: Record.Type,
    _ body: (Record) -> Result
  ) -> Result? {
    guard let record = unsafe slots[index].record else { return nil }
    return unsafe record._withUnsafeGuaranteedRef { object in
      body(unsafe unsafeDowncast(object, to: type))
    }
  }

  /// Notes why an open id is cancelled; the first reason stays.
  func cancel(_ id: UInt64, reason: UInt32) {
    guard let index = index(of: id) else { return }
    let slot = unsafe slots + index
    var old = unsafe slot.pointee.state.load(ordering: .acquiring)
    while old >> 32 == id >> 32, old & Self.phaseMask == Self.open, old & Self.reasonMask == 0 {
      let new = old | UInt64(reason & 0xFF) << 16
      let (exchanged, original) = unsafe slot.pointee.state.weakCompareExchange(
        expected: old,
        desired: new,
        ordering: .acquiringAndReleasing
      )
      if exchanged { return }
      old = original
    }
  }

  /// The reason of an open id, 0 if it is not cancelled, `nil` if it is over.
  func reason(_ id: UInt64) -> UInt32? {
    guard let index = index(of: id) else { return nil }
    let state = unsafe slots[index].state.load(ordering: .acquiring)
    guard state >> 32 == id >> 32, state & Self.phaseMask == Self.open else { return nil }
    return UInt32(truncatingIfNeeded: (state & Self.reasonMask) >> 16)
  }

  @inline(__always) private func index(of id: UInt64) -> Int? {
    let place = id & 0xFFFF_FFFF
    guard place & 1 << 31 == kind else { return nil }
    let number = place & 0x7FFF_FFFF
    guard number >= 1, number <= UInt64(capacity) else { return nil }
    return Int(number) - 1
  }

  // A stack of free slots; the upper half of its head counts changes, so that a slot that left and
  // came back between a read and the exchange is noticed.
  private func pop() -> UInt32? {
    var old = unsafe head.pointee.load(ordering: .acquiring)
    while true {
      let number = UInt32(truncatingIfNeeded: old)
      guard number != 0 else { return nil }
      let next = unsafe slots[Int(number) - 1].next.load(ordering: .relaxed)
      let new = ((old >> 32) &+ 1) << 32 | UInt64(next)
      let (exchanged, original) = unsafe head.pointee.weakCompareExchange(
        expected: old,
        desired: new,
        ordering: .acquiringAndReleasing
      )
      if exchanged { return number - 1 }
      old = original
    }
  }

  private func push(_ index: UInt32) {
    var old = unsafe head.pointee.load(ordering: .relaxed)
    while true {
      unsafe slots[Int(index)].next.store(UInt32(truncatingIfNeeded: old), ordering: .relaxed)
      let new = ((old >> 32) &+ 1) << 32 | UInt64(index + 1)
      let (exchanged, original) = unsafe head.pointee.weakCompareExchange(
        expected: old,
        desired: new,
        ordering: .acquiringAndReleasing
      )
      if exchanged { return }
      old = original
    }
  }
}
