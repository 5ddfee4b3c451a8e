// Handlers that go wrong, and the parts of PerdurePluginKit that the example does not use.
import PerdurePluginKit

@main struct Probe: Plugin {
  struct Five: Error {}
  enum Luck: Error, CustomStringConvertible {
    case none
    var description: String { "no luck" }
  }

  actor Count {
    private var count = 0
    func next() -> Int {
      count += 1
      return count
    }
  }

  private let count = Count()

  func activate(_ host: PluginHost) async throws { host.log(.info, "activated") }

  var contributions: [Contribution] { failing + waiting + committing + sending + asking }

  private var failing: [Contribution] {
    [
      .tool("fail") { _ in
        throw PluginError(.busy, "not now", detail: ["reason": "limit"], traits: .retryable)
      },
      .tool("visible") { _ in throw PluginError("the file is not there") },
      .tool("standard") { _ in throw Luck.none },
      .tool("throw") { _ in throw Five() },
      .tool("drop") { _ in throw CancellationError() },
    ]
  }

  private var waiting: [Contribution] {
    [
      .tool("later") { call in
        await Task.detached {
          call.log(.info, "on another thread")
          return .text("from another thread")
        }.value
      },
      .tool("chain") { call in
        let value = try await call.memo("m", 7)
        let document: JSON? = try await call.document("test.probe.list")
        try await call.wait(milliseconds: 1)
        let done = try await call.commit { _ in value }
        let found = document == nil ? "no document" : "a document"
        return .text("\(done.result), \(found), \(done.sequence == nil ? "un" : "")written")
      },
      .tool("chainfail") { call in
        // No wrap: there is nothing inside.
        _ = try? await call.invoke("next")
        throw PluginError("the continuation fails")
      },
      .tool("nowait") { [count] _ in
        await withTaskGroup(of: Void.self) { group in
          for _ in 1...100 { group.addTask { _ = await count.next() } }
        }
        return .text("\(await count.next())")
      },
      .tool("cancel") { call in
        // Nobody resumes it: only the cancellation ends the wait.
        let ends = AsyncStream<Void> { _ in }
        for await _ in ends {}
        let reason = call.cancelReason.map { "\($0)" } ?? "nothing"
        return .text("cancelled for \(reason), \(Task.isCancelled)")
      },
    ]
  }

  private var committing: [Contribution] {
    [
      .tool("conflict") { call in
        var runs = 0
        do {
          try await call.commit { tx in
            runs += 1
            _ = try await tx.ownedTasks(of: "none")
          }
        } catch let error as PluginError {
          throw PluginError("\(runs) runs: \(error.reason ?? "")")
        }
        return .text("\(runs) runs")
      },
      .tool("rewrite") { call in
        try await call.commit { tx in
          _ = try await tx.ownTask()
          tx.step(["do": "x"])
          _ = try await tx.ownedTasks(of: "none")
        }
        return .text("written")
      },
      .tool("txthrow") { call in
        try await call.commit { tx in
          _ = try await tx.ownTask()
          throw PluginError("the body fails")
        }
        return .text("written")
      },
    ]
  }

  private var sending: [Contribution] {
    [
      .tool("output") { call in
        try await call.output("x" + String(repeating: "\u{e9}", count: 66_000))
        try await call.output(bytes: [UInt8](repeating: 0xFF, count: 70_000))
        try await call.diagnostic(ToolDiagnostic(.warn, "careful"))
        return .text("done")
      },
      .tool("long") { _ in .text(String(repeating: "y", count: 100_000)) },
      .tool("emitted") { call in
        try await call.output("all")
        return .emitted
      },
    ]
  }

  private var asking: [Contribution] {
    [
      .tool("stream") { call in
        var seen = ""
        let stream = try await call.stream("test.stream")
        for try await item in stream { seen += "\(item) " }
        seen += stream.end?.description ?? ""
        _ = try await call.stream("test.stream")
        return .text(seen)
      },
      .tool("parts") { call in
        let parts = Payload.parts(
          ["bytes": ["part": 1]],
          [Array("abc".utf8), Array("0123456789".utf8)]
        )
        return .text(try await call.request("test.parts", parts).json().description)
      },
      .tool("bytes") { call in
        .text("\(try await call.request("random", Payload(["bytes": 3])).bytes.count) bytes")
      },
      .tool("unknown") { call in .text(try await call.invoke("no.such").description) },
      .tool("echo") { call in ToolResult(members: call.arguments.object ?? [:]) },
    ]
  }
}
