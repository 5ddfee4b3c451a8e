import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// One random commit.
struct KernelStep {
  static let progress = definition("k.progress", .session)

  private static let family = definition("k.family", .session, isFamily: true)
  private static let ofTask = definition("k.task", .task)
  private static let taskFamily = definition("k.tasks", .task, isFamily: true)

  /// Documents of conversations, of every history and fork.
  private static let singletons: [DocumentDefinition] = [
    definition("k.asOf", .conversation(.rewindable, .asOf)),
    definition("k.rewindable", .conversation(.rewindable, .current)),
    definition("k.rewound", .conversation(.rewindable, .initial)),
    definition("k.current", .conversation(.latest, .current)),
    definition("k.initial", .conversation(.latest, .initial)),
  ]

  private static let families: [DocumentDefinition] = [
    definition("k.notes", .conversation(.rewindable, .asOf), isFamily: true),
    definition("k.drafts", .conversation(.latest, .current), isFamily: true),
  ]

  private static let task = TaskDefinition(
    name: "k.work",
    version: 1,
    initial: { _ in ["phase": "idle"] },
    phases: [:],
    abort: { _, _ in },
    migrate: nil,
    settle: { _, _, _ in }
  )

  private static func definition(
    _ kind: JSONString,
    _ scope: DocumentDefinition.Scope,
    version: Int64 = 1,
    isFamily: Bool = false
  ) -> DocumentDefinition {
    DocumentDefinition(
      kind: kind,
      version: version,
      scope: scope,
      isFamily: isFamily,
      initial: { seed, _ in seed ?? ["text": ""] },
      migrate: { value, from in
        var object = value.object ?? [:]
        object["from"] = .int(from)
        return .object(object)
      },
      // Short chains of deltas, so that bases, deltas and what frees them all come about.
      storesBase: { $0.deltasSinceBase > 2 }
    )
  }

  let number: Int
  private let kind: Int
  private var random: SeededGenerator

  /// Whether it mints ids before a read that writes what was staged, and with it their number.
  var mintsEarly: Bool { [4, 5, 11].contains(kind) }

  init(number: Int, seed: UInt64) {
    self.number = number
    random = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(number))
    kind = random.int(0...11)
  }

  /// A document that a later half of the steps has in a newer version.
  private var migrating: DocumentDefinition {
    Self.definition(
      "k.migrating",
      .conversation(.rewindable, .asOf),
      version: number * 2 < Kernel.count ? 1 : 2
    )
  }

  /// Writes the step, and returns whether it may mint ids that no record gets.
  mutating func write(to tx: Transaction) async throws -> Bool {
    var mayWasteIds = false
    if number == 0 {
      _ = try await tx.createConversation(root: true)
    } else {
      mayWasteIds = try await act(tx)
    }
    let done = Int64(number + 1)
    try await tx.edit(Self.progress, in: .session) { try $0.set([.key("steps")], .int(done)) }
    return mayWasteIds
  }

  private mutating func act(_ tx: Transaction) async throws -> Bool {
    let all = try await tx.scanConversations(.init(), PageRequest(limit: 256)).items.map(\.id)
    let tasks = try await tx.scanTasks(TaskQuery(status: .pending), PageRequest(limit: 256)).items
    let conversation = random.pick(all)
    let entries = try await tx.scanEntries(
      EntryQuery(conversationId: conversation),
      PageRequest(limit: 256, order: .ascending)
    ).items.map(\.id)
    switch kind {
    case 0...3: try await change(conversation, tx)
    case 4, 5:
      if entries.isEmpty {
        try await change(conversation, tx)
      } else {
        _ = try await tx.forkConversation(conversation, at: random.pick(entries))
      }
    case 6, 7:
      try await recreate(conversation, tx)
      return true
    case 8:
      try await editFamilies(conversation, tx)
      return true
    case 9: try await work(conversation, tasks, tx)
    case 10: try await mark(conversation, entries, tx)
    default:
      let owner = tasks.isEmpty || random.chance(50) ? nil : random.pick(tasks).id
      let created = try await tx.createConversation(owner: owner)
      try await change(created.id, tx)
    }
    return false
  }

  /// An entry with changes of documents around it.
  private mutating func change(_ id: ConversationID, _ tx: Transaction) async throws {
    let place = random.int(0...2)
    for turn in 0...2 {
      if turn == place {
        try await tx.append(EntryDraft(kind: "k.entry", data: text()), to: id)
      }
      let definition = random.chance(20) ? migrating : random.pick(Self.singletons)
      try await edit(definition, .conversation(id), nil, tx)
    }
    try tx.put(
      extra: ExtraWrite(
        scope: "k",
        id: Int64(random.int(0...3)),
        value: random.chance(30) ? nil : text()
      )
    )
  }

  private mutating func edit(
    _ definition: DocumentDefinition,
    _ scope: DocumentScope,
    _ key: JSONString?,
    _ tx: Transaction
  ) async throws {
    let (addition, name, value) = (text(), random.pick(["a", "b", "ключ"] as [JSONString]), text())
    let deletes = random.chance(20)
    try await tx.edit(definition, in: scope, key: key, seed: ["text": "", "seed": value]) { draft in
      try draft.append([.key("text")], addition.string ?? "")
      if deletes, draft.value[name] != nil {
        try draft.delete([.key(name)])
      } else {
        try draft.set([.key(name)], ["n": value, "list": [1, .double(2.5), .null]])
      }
    }
  }

  /// Retirements, with and without a new incarnation in the same commit.
  private mutating func recreate(_ id: ConversationID, _ tx: Transaction) async throws {
    try await tx.append(EntryDraft(kind: "k.retired"), to: id)
    for _ in 0...1 {
      let definition = random.chance(20) ? migrating : random.pick(Self.singletons)
      try await tx.retire(definition, in: .conversation(id))
      if random.chance(50) { try await edit(definition, .conversation(id), nil, tx) }
    }
  }

  private mutating func editFamilies(_ id: ConversationID, _ tx: Transaction) async throws {
    try await tx.append(EntryDraft(kind: "k.families", data: text()), to: id)
    for _ in 0...3 {
      let definition = random.pick(Self.families + [Self.family])
      let scope: DocumentScope = definition.scope == .session ? .session : .conversation(id)
      let key = random.pick(["", "one", "é", "\u{1F600}"] as [JSONString])
      if random.chance(25) {
        try await tx.retire(definition, in: scope, key: key)
      } else {
        try await edit(definition, scope, key, tx)
      }
    }
  }

  /// A new task with documents, or a change or the end of one.
  private mutating func work(
    _ id: ConversationID,
    _ tasks: [TaskRecord],
    _ tx: Transaction
  ) async throws {
    guard !tasks.isEmpty, random.chance(60) else {
      let owner = tasks.filter { $0.conversationId == id }.last
      let owned = try await tx.createTask(
        Self.task,
        input: text(),
        owner: random.chance(50) ? owner?.id : nil,
        conversation: id
      )
      return try await edit(Self.ofTask, .task(owned.id), nil, tx)
    }
    var record = random.pick(tasks)
    // Owned work ends first.
    let isOwner = tasks.contains { $0.owner == record.id }
    if isOwner || random.chance(50) {
      try await edit(Self.ofTask, .task(record.id), nil, tx)
      try await edit(Self.taskFamily, .task(record.id), "k", tx)
      record.state = .pending(checkpoint: text())
    } else {
      record.state = .terminal(.completed(result: text()))
    }
    try await tx.replace(record)
  }

  /// A head marker, or edits of what is visible.
  private mutating func mark(
    _ id: ConversationID,
    _ entries: [EntryID],
    _ tx: Transaction
  ) async throws {
    var draft = EntryDraft(kind: "k.mark", model: [["role": "user", "content": text()]])
    if entries.isEmpty || random.chance(30) {
      draft.head = .itself
    } else if random.chance(50) {
      draft.head = .entry(random.pick(entries))
    } else {
      draft.edits = [.omit(random.pick(entries))]
    }
    try await tx.append(draft, to: id)
  }

  private mutating func text() -> JSON {
    .string(String(repeating: random.pick(["x", "é", "\u{1F600}\n"]), count: random.int(0...20)))
  }
}
