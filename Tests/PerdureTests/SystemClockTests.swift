import Perdure
import PerdureModel
import Synchronization
import Testing

/// The clock of the machine, as far as no time has to be waited for.
@Suite(.timeLimit(.minutes(5))) struct SystemClockTests {
  private let clock = SystemClock()
  private static let hour: Int64 = 3_600_000_000_000

  private final class Held: Sendable {}

  private final class Bell: Sendable {
    let hasRung = Mutex(false)

    func ring() { hasRung.withLock { $0 = true } }
  }

  @Test func `a sleep is never too short`() async {
    let begin = clock.monotonic()
    await clock.sleep(nanoseconds: 2_000_000)
    #expect(clock.monotonic() - begin >= 2_000_000)
  }

  @Test func `a sleep ends when its task is cancelled`() async {
    let task = Task { [clock] in await clock.sleep(nanoseconds: .max) }
    task.cancel()
    await task.value
  }

  @Test func `many sleeps are cancelled while they begin`() async {
    await withTaskGroup(of: Void.self) { group in
      for number in 1...1_000 as ClosedRange<Int64> {
        group.addTask { [clock] in await clock.sleep(nanoseconds: Self.hour * number) }
      }
      group.cancelAll()
      await group.waitForAll()
    }
  }

  @Test func `a late alarm does not keep an early one`() async {
    let bell = Bell()
    let silence = clock.alarm(nanoseconds: Self.hour) { bell.ring() }
    await withCheckedContinuation { continuation in
      _ = clock.alarm(nanoseconds: 1) { continuation.resume() }
    }
    silence()
    #expect(!bell.hasRung.withLock { $0 })
  }

  @Test func `an alarm that is taken back keeps nothing alive`() {
    var held: Held? = Held()
    weak let watched = held
    let silence = clock.alarm(nanoseconds: Self.hour) { [held] in _ = held }
    held = nil
    #expect(watched != nil)
    silence()
    silence()
    #expect(watched == nil)
  }
}
