/// A small repeatable source of randomness; the seed is printed so that a failure can be repeated.
public struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  /// Makes the generator of this seed.
  public init(seed: UInt64) { state = seed }

  /// Makes a generator with a fresh seed, or that of the variable `PERDURE_SEED`, and says which it
  /// is.
  public init(for purpose: String) {
    let seed = Effort.seed ?? UInt64.random(in: 0...UInt64.max)
    print("seed of \(purpose): \(seed)")
    self.init(seed: seed)
  }

  /// The next 64 bits (SplitMix64).
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// A number of the range.
  public mutating func int(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self) }

  /// Whether an event of this probability happens.
  public mutating func chance(_ percent: Int) -> Bool { int(1...100) <= percent }

  /// One of the elements, which may not be empty.
  public mutating func pick<Element>(_ elements: [Element]) -> Element {
    elements[int(0...(elements.count - 1))]
  }
}
