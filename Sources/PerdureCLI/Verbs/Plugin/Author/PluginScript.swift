import Perdure
import PerdureModel
import PerdureValue

/// A faux script beside a plugin, with the transcript that is expected of it.
struct PluginScript: Sendable {
  private static let ending = ".faux.json"

  /// The path of the script.
  var path: String

  /// The name of the file.
  var name: String { String(path.split(separator: "/").last ?? "") }

  /// The path of the transcript that is expected.
  var expectedPath: String { path.dropLast(Self.ending.count) + ".expected.txt" }

  /// The name of the file of the transcript.
  var expectedName: String { name.dropLast(Self.ending.count) + ".expected.txt" }

  /// The folder of the files that its tools work on, which need not exist.
  var filesPath: String { path.dropLast(Self.ending.count) + ".files" }

  /// Returns what is expected, or `nil` if nothing is yet.
  func expected() throws(PerdureError) -> String? {
    guard HostText.kind(ofPath: expectedPath) != .nothing else { return nil }
    let bytes = try HostText.file(at: expectedPath, called: "the expected transcript")
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Returns the scripts in a folder, by name; `stem` keeps those of one plugin, if it has some.
  static func all(in folder: String, stem: String?) throws(PerdureError) -> [PluginScript] {
    let names = try HostText.files(inFolder: folder).filter { $0.hasSuffix(ending) }
    let own = names.filter { name in stem.map { name.hasPrefix($0 + ".") } ?? false }
    return (own.isEmpty ? names : own).map { PluginScript(path: "\(folder)/\($0)") }
  }
}

/// Plays scripts in an open harness, each in a conversation of its own.
struct ScriptPlayer: Sendable {
  let harness: Harness
  let shelf: ScriptShelf
  /// The folder of the plugin.
  let folder: String
  /// How long one script may take.
  let limit: Duration

  /// What one play came to.
  struct Play: Sendable {
    var transcript: String
    var milliseconds: Int64
  }

  private static let clock = SystemClock()

  /// Plays a script from its beginning.
  ///
  /// Throws `invalidInput` if it is none; whatever happens while it is played is in the transcript.
  func play(_ script: PluginScript) async throws -> Play {
    let (models, prompt) = try Models.play(scriptAt: script.path)
    let model = shelf.put(models, as: script.name)
    let start = Self.clock.monotonic()
    let conversation = try await harness.createConversation()
    try await conversation.configure(.init(model: model))
    let submission = try await conversation.submit(prompt ?? "Go.")
    let failure = await answer(submission, conversation)
    var entries: [EntryRecord] = []
    _ = try await harness.reader.forEachReadableEntry(of: conversation.id) { entry in
      entries.append(entry)
      return true
    }
    let transcript = GoldenTranscript(folder: folder, now: Self.clock.now())
    return Play(
      transcript: transcript.text(of: entries, failure: failure),
      milliseconds: (Self.clock.monotonic() - start) / 1_000_000
    )
  }

  /// Waits for the answer, and returns why there is none.
  private func answer(_ submission: Submission, _ conversation: Conversation) async -> PerdureError?
  {
    let late = Flag()
    // Ends with this function: it is cancelled when there is an answer.
    let timer = Task {
      await Self.clock.sleep(nanoseconds: limit.components.seconds * 1_000_000_000)
      guard !Task.isCancelled else { return }
      late.set()
      // What cannot be aborted ends with the store.
      try? await conversation.abort(background: true)
    }
    defer { timer.cancel() }
    do { _ = try await submission.answer() } catch {
      if late.isSet {
        return PerdureError("timeout", "there was no answer within \(limit.components.seconds) s")
      }
      return error as? PerdureError ?? PerdureError("internal", "\(error)")
    }
    return nil
  }
}
