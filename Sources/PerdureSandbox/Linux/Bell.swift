import CPerdureLinux
import Glibc

/// Wakes a thread that waits for descriptors.
struct Bell: Sendable {
  let descriptor: Descriptor

  init() throws(SystemFailure) { descriptor = try Descriptor(returned: perdure_bell_make()) }

  func ring() { perdure_bell_ring(descriptor.number) }

  func silence() { perdure_bell_silence(descriptor.number) }
}

/// Which of several descriptors have something to say.
struct Readiness: OptionSet, Sendable {
  let rawValue: Int32

  static let first = Readiness(rawValue: 1)
  static let second = Readiness(rawValue: 2)
  static let third = Readiness(rawValue: 4)
  static let fourth = Readiness(rawValue: 8)

  /// Waits until one of them can be read, or until a time on the clock; for ever without one.
  static func wait(
    _ first: Descriptor?,
    _ second: Descriptor? = nil,
    _ third: Descriptor? = nil,
    _ fourth: Descriptor? = nil,
    until deadline: Int64?
  ) -> Readiness {
    var milliseconds: Int32 = -1
    if let deadline {
      let left = max(0, deadline - monotonicNanoseconds())
      milliseconds = Int32(clamping: (left + 999_999) / 1_000_000)
    }
    let ready = perdure_command_wait(
      first?.number ?? -1,
      second?.number ?? -1,
      third?.number ?? -1,
      fourth?.number ?? -1,
      milliseconds
    )
    return Readiness(rawValue: max(0, ready))
  }
}

extension Readiness {
  /// Waits for one descriptor whatever signals come; `false` if it said nothing by then.
  static func has(_ descriptor: Descriptor, by deadline: Int64) -> Bool {
    repeat {
      if !wait(descriptor, until: deadline).isEmpty { return true }
    } while monotonicNanoseconds() < deadline
    return false
  }
}

/// Nanoseconds of a clock that never goes back.
func monotonicNanoseconds() -> Int64 { perdure_command_clock() }

/// Nanoseconds since 1970, by the clock that file systems use.
func wallNanoseconds() -> Int64 {
  var time = timespec()
  unsafe clock_gettime(CLOCK_REALTIME, &time)
  return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
