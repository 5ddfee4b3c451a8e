import PerdureModel
import PerdureValue

/// One section of a plugin, or one wrap around a section, as the engine renders it.
struct PluginSection: Sendable {
  let caller: ContributionCaller

  /// The section that the engine registers.
  static func registered(
    _ section: ManifestSection,
    _ caller: ContributionCaller,
    failsClosed: @escaping @Sendable () -> Bool
  ) -> PromptSection {
    if let text = section.text {
      return PromptSection(section.key, isTagged: section.tag, text: text)
    }
    let rendering = PluginSection(caller: caller)
    var made = PromptSection(
      section.key,
      isTagged: section.tag,
      deadline: .nanoseconds(caller.times.deadline)
    ) { try await rendering.text($0, around: nil) }
    made.endsInTime = true
    made.failsClosed = failsClosed
    return made
  }

  private static func decode(_ object: JSONObject) throws(BorderProblem) -> String? {
    var reader = FieldReader(object)
    let text = try reader.string("text")
    try reader.finish()
    return text
  }

  private func text(_ input: PromptInput, around inner: InnerCall?) async throws -> String? {
    let place = CallPlace(
      task: (input.read as? any HookContext)?.taskId,
      reads: input.read,
      inner: inner
    )
    return try await caller.call(ContributionMessage.section(caller.core, input), place) {
      (object) throws(BorderProblem) in try Self.decode(object)
    }
  }

  /// Puts the wrap around a section.
  ///
  /// While nobody runs its code, one that guards lets no prompt be made; one that observes lets the
  /// section pass unless `failsClosed`.
  func wrapping(
    _ section: PromptSection,
    isObserver: Bool,
    failsClosed: @escaping @Sendable () -> Bool
  ) -> PromptSection {
    let render = section.render
    let deadline = section.deadline
    let watches = !section.endsInTime
    let clock = caller.core.environment.clock
    var made = section
    made.deadline = .nanoseconds(caller.times.whole)
    made.endsInTime = true
    let (inside, core) = (section.failsClosed, caller.core)
    made.failsClosed = {
      failsClosed() || (!isObserver && core.isDown) || inside?() == true
    }
    made.render = { input in
      let inner = InnerCall(
        .section(
          SectionBody {
            try await Bounded.run(watches ? deadline : nil, clock) { try await render(input) }
          }
        )
      )
      do {
        let text = try await text(input, around: inner)
        await inner.end()
        return text
      } catch {
        await inner.end()
        guard isObserver, !Task.isCancelled, !failsClosed() else { throw error }
        caller.core.reportFailure(of: caller.label, error)
        return try await inner.section()
      }
    }
    return made
  }
}

/// What a wrap of a section is put around.
struct SectionBody: Sendable {
  let render: @Sendable () async throws -> String?

  init(_ render: @escaping @Sendable () async throws -> String?) { self.render = render }
}

/// Runs code of somebody else that may never end.
enum Bounded {
  private static let grace: Int64 = 5_000_000_000

  /// Calls `body` and waits no longer than the deadline and a grace; without one, as long as it takes.
  static func run<Value: Sendable>(
    _ deadline: Duration?,
    _ clock: any HostClock,
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    guard let deadline else { return try await body() }
    let end = OneShot<Result<Value, any Error>>()
    // Nobody waits for it for ever: code that ignores its cancellation is left behind.
    let work = Task.detached {
      do { end.fire(.success(try await body())) } catch { end.fire(.failure(error)) }
    }
    let late = Result<Value, any Error>.failure(
      PerdureError("tool_error", "it did not answer within \(deadline)")
    )
    let timer = Task.detached {
      await clock.sleep(nanoseconds: deadline.wholeNanoseconds)
      if Task.isCancelled { return }
      work.cancel()
      await clock.sleep(nanoseconds: grace)
      if !Task.isCancelled { end.fire(late) }
    }
    defer { timer.cancel() }
    return try await withTaskCancellationHandler {
      try await end.value().get()
    } onCancel: {
      work.cancel()
    }
  }
}

extension Duration {
  /// The whole nanoseconds of it, within what 64 bits hold.
  var wholeNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (nanoseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? .max : nanoseconds + attoseconds / 1_000_000_000
  }
}
