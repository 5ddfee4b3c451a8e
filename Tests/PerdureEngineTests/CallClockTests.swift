import PerdureEngine
import PerdureModel
import PerdureTestKit
import Testing

/// The deadline of a call.
@Suite(.timeLimit(.minutes(5))) struct CallClockTests {
  @Test func `time in which the host works for a call does not count`() async throws {
    let clock = ManualClock()
    let over = Event()
    let deadline = CallClock(clock, budget: 10_000_000_000) { over.happen() }
    deadline.start()
    await clock.waitForSleeper(ofExactly: .seconds(10))
    clock.advance(by: .seconds(4))
    await deadline.standingStill {
      clock.advance(by: .seconds(100))
      // A wait within a wait ends with the outer one.
      await deadline.standingStill { clock.advance(by: .seconds(100)) }
      clock.advance(by: .seconds(100))
    }
    #expect(!over.hasHappened)
    await clock.waitForSleeper(ofExactly: .seconds(6))
    clock.advance(by: .seconds(6))
    await over.wait()
  }
}
