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
/// slot pinned; the last one out releases it and frees the slot. Slots are made by the block when they
/// are needed first, because most plugins need few. Whoever made the table frees it when nobody can
/// come with an id any more.
// Safe: indices come from `index(of:)` or from the table, which check bounds, and slots live as long
// as the table.
@safe struct IdTable: @unchecked Sendable {
  // @unchecked: what the pointers lead to is atomic, or owned by the one who moved the phase.
  private let blocks: UnsafeMutablePointer<Atomic<UInt>>
  /// A stack of free slots; the upper half counts its changes.
  private let head: UnsafeMutablePointer<Atomic<UInt64>>
  /// How many slots were ever taken.
  private let used: UnsafeMutablePointer<Atomic<UInt32>>
  private let capacity: UInt32
  private let kind: UInt64
  private let chance: UInt32

  // A power of two, so that the place of a slot costs no division.
  private static let blockBits = 5
  private static let blockSize = 1 << blockBits
  private static let open: UInt64 = 1 << 24
  private static let done: UInt64 = 2 << 24
  private static let phaseMask: UInt64 = 0xFF << 24
  private static let reasonMask: UInt64 = 0xFF << 16
  private static let userMask: UInt64 = 0xFFFF

  /// Makes a table; ids of two tables with different `kind` (0 or 1) never meet.
  init(capacity: UInt32, kind: UInt64) {
    self.capacity = capacity
    self.kind = kind << 31
    // Generations from chance: an id of one plugin means nothing to another.
    chance = UInt32.random(in: .min ... .max)
    let count = Self.blockCount(capacity)
    unsafe blocks = .allocate(capacity: count)
    for index in 0..<count { unsafe (blocks + index).initialize(to: Atomic(0)) }
    unsafe head = .allocate(capacity: 1)
    unsafe head.initialize(to: Atomic(0))
    unsafe used = .allocate(capacity: 1)
    unsafe used.initialize(to: Atomic(0))
  }

  private static func blockCount(_ capacity: UInt32) -> Int {
    (Int(capacity) + blockSize - 1) / blockSize
  }

  /// Frees the slots; nothing may use the table or a copy of it any more.
  func free() {
    let count = Self.blockCount(capacity)
    for index in 0..<count { unsafe Self.free(block: blocks[index].load(ordering: .acquiring)) }
    unsafe blocks.deinitialize(count: count).deallocate()
    unsafe head.deinitialize(count: 1).deallocate()
    unsafe used.deinitialize(count: 1).deallocate()
  }

  private static func free(block address: UInt) {
    guard let block = unsafe UnsafeMutablePointer<IdSlot>(bitPattern: address) else { return }
    for index in 0..<blockSize { unsafe block[index].record?.release() }
    unsafe block.deinitialize(count: blockSize).deallocate()
  }

  /// The slot at an index; `nil` if none of its block was ever taken.
  @inline(__always) private func slot(_ index: Int) -> UnsafeMutablePointer<IdSlot>? {
    let address = unsafe blocks[index &>> Self.blockBits].load(ordering: .acquiring)
    return unsafe UnsafeMutablePointer<IdSlot>(bitPattern: address)
      .map { unsafe $0 + index & (Self.blockSize - 1) }
  }

  /// The slot at an index, made if need be.
  private func made(_ index: Int) -> UnsafeMutablePointer<IdSlot> {
    if let slot = unsafe slot(index) { return unsafe slot }
    let number = index &>> Self.blockBits
    let block = UnsafeMutablePointer<IdSlot>.allocate(capacity: Self.blockSize)
    for place in 0..<Self.blockSize {
      let position = UInt32(truncatingIfNeeded: number * Self.blockSize + place)
      let generation = UInt64(chance &+ position &* 0x9E37_79B9) << 32
      unsafe (block + place).initialize(
        to: IdSlot(state: Atomic(generation), next: Atomic(0), record: nil)
      )
    }
    let (exchanged, original) = unsafe blocks[number].compareExchange(
      expected: 0,
      desired: UInt(bitPattern: block),
      ordering: .acquiringAndReleasing
    )
    if exchanged { return unsafe block + index & (Self.blockSize - 1) }
    // Another thread was faster.
    Self.free(block: UInt(bitPattern: block))
    return unsafe (UnsafeMutablePointer<IdSlot>(bitPattern: original) ?? block)
      + index & (Self.blockSize - 1)
  }

  /// Takes a free slot for `record`; `nil` if there is none.
  func open(_ record: AnyObject) -> UInt64? {
    guard let index = pop() ?? fresh() else { return nil }
    let slot = unsafe made(Int(index))
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
    let slot = unsafe made(index)
    let state = unsafe slot.pointee.state.load(ordering: .acquiring)
    guard state & (Self.phaseMask | Self.userMask) == 0 else { return false }
    unsafe slot.pointee.record = Unmanaged.passRetained(record)
    unsafe slot.pointee.state.store((id >> 32) << 32 | Self.open, ordering: .releasing)
    return true
  }

  /// Whether an id was given out here, as far as the generation of its slot tells.
  func wasIssued(_ id: UInt64) -> Bool {
    guard let index = index(of: id), let slot = unsafe slot(index) else { return false }
    let state = unsafe slot.pointee.state.load(ordering: .acquiring)
    let age = UInt32(truncatingIfNeeded: state >> 32) &- UInt32(truncatingIfNeeded: id >> 32)
    return Int32(bitPattern: age) >= 0
  }

  /// Keeps an open slot from being freed; `nil` if the id is over or never was.
  @inline(__always) func pin(_ id: UInt64) -> Int? { enter(id, becoming: Self.open) }

  /// Ends an id and pins its slot; only one caller ever gets it.
  @inline(__always) func claim(_ id: UInt64) -> Int? { enter(id, becoming: Self.done) }

  @inline(__always)
  private func enter(_ id: UInt64, becoming phase: UInt64) -> Int? {
    guard let index = index(of: id), let slot = unsafe slot(index) else { return nil }
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
    guard let slot = unsafe slot(index) else { return }
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
    guard let record = unsafe slot(index)?.pointee.record else { return nil }
    return unsafe record._withUnsafeGuaranteedRef { object in
      body(unsafe unsafeDowncast(object, to: type))
    }
  }

  /// Notes why an open id is cancelled; the first reason stays.
  func cancel(_ id: UInt64, reason: UInt32) {
    guard let index = index(of: id), let slot = unsafe slot(index) else { return }
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
    guard let index = index(of: id), let slot = unsafe slot(index) else { return nil }
    let state = unsafe slot.pointee.state.load(ordering: .acquiring)
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

  /// Takes a slot that was never taken.
  private func fresh() -> UInt32? {
    var count = unsafe used.pointee.load(ordering: .relaxed)
    while count < capacity {
      let (exchanged, original) = unsafe used.pointee.weakCompareExchange(
        expected: count,
        desired: count + 1,
        ordering: .relaxed
      )
      if exchanged { return count }
      count = original
    }
    return nil
  }

  // The changes are counted so that a slot that left and came back between a read and the exchange is
  // noticed.
  private func pop() -> UInt32? {
    var old = unsafe head.pointee.load(ordering: .acquiring)
    while true {
      let number = UInt32(truncatingIfNeeded: old)
      guard number != 0, let slot = unsafe slot(Int(number) - 1) else { return nil }
      let next = unsafe slot.pointee.next.load(ordering: .relaxed)
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
    guard let slot = unsafe slot(Int(index)) else { return }
    var old = unsafe head.pointee.load(ordering: .relaxed)
    while true {
      unsafe slot.pointee.next.store(UInt32(truncatingIfNeeded: old), ordering: .relaxed)
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
