import Synchronization

/// The calls that are not over, each in a place that it knows.
struct LiveCalls {
  private var places: [PluginCall?] = []
  private var free: [Int] = []
  /// Fired when the last one is over.
  var whenEmpty: OneShot<Bool>?

  /// All of them.
  var all: [PluginCall] { places.compactMap(\.self) }
  var isEmpty: Bool { free.count == places.count }

  mutating func add(_ call: PluginCall) {
    guard call.number.load(ordering: .relaxed) < 0 else { return }
    let number = free.popLast() ?? places.count
    if number == places.count { places.append(call) } else { places[number] = call }
    call.number.store(number, ordering: .relaxed)
  }

  mutating func remove(_ call: PluginCall) {
    let number = call.number.exchange(-1, ordering: .relaxed)
    guard number >= 0 else { return }
    places[number] = nil
    free.append(number)
  }
}
