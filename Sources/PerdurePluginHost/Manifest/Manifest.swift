package import PerdureModel
package import PerdureValue

/// What a plugin says about itself, read before any of its code runs.
package struct Manifest: Sendable {
  /// Whether it describes functions of shared libraries and has no code of its own.
  package var isForeign: Bool { runtime == ForeignReader.runtime }

  /// The lowest host that will do.
  package struct ABI: Sendable, Equatable {
    package var major = 1
    package var minor = 0
    package var messages = 1
  }

  /// How its calls are run.
  package struct Execution: Sendable {
    package enum Mode: String, CaseIterable, Sendable { case any, runner, inProcess }

    package var mode = Mode.any
    package var maxConcurrency = 16
    package var blocking = false
    package var deadlineMs: Int?
    package var graceMs = 5_000
    package var limits: JSONObject?
  }

  /// Settings that it takes.
  package struct Settings: Sendable {
    package var schema: JSON
    package var defaults: JSONObject
  }

  package var id: String
  package var version: String
  package var title: String?
  package var description: String?
  package var license: String?
  package var homepage: String?
  package var authors: [String]
  package var abi: ABI
  package var runtime: String
  package var requiredInterfaces: [String]
  package var optionalInterfaces: [String]
  package var execution: Execution
  package var settings: Settings?
  package var state: ManifestState?
  package var health: [ManifestHealth]
  package var dynamic: ManifestDynamic?
  package var permissions: ManifestPermissions
  package var tools: [ManifestTool]
  package var sections: [ManifestSection]
  package var hooks: [ManifestHook]
  package var wraps: [ManifestWrap]
  package var tasks: [ManifestTask]
  package var documents: [ManifestDocument]
  /// Pointers to what was ignored, because this version does not know it.
  package var unknownMembers: [String]
}

/// The versions of a snapshot that a plugin writes and reads.
package struct ManifestState: Sendable {
  package var version: Int
  package var restores: [Int]
}

/// Something about its health that a plugin can be asked.
package struct ManifestHealth: Sendable {
  package var name: String
  package var title: String
  package var everyMs: Int?
}

/// What a plugin may register while it runs.
package struct ManifestDynamic: Sendable {
  package var tools: String?
  package var sections: String?
  package var hooks: Bool
}

/// What a plugin asks for; what is absent is denied.
package struct ManifestPermissions: Sendable {
  package enum Environment: String, CaseIterable, Sendable { case read, write, exec }
  package enum Conversations: String, CaseIterable, Sendable { case own, read, write }

  /// As it stands in the manifest.
  package var json: JSONObject = [:]
  package var environment: Environment?
  package var conversations = Conversations.own
  /// Whether it may ask people.
  package var approvals = false
}

/// How long a call may take, and beside how many others.
package struct CallOptions: Sendable {
  package var deadlineMs: Int?
  package var wallMs: Int?
  package var graceMs: Int?
  package var maxConcurrency: Int?
  package var blocking: Bool?
  package var inline = false
}

/// A tool.
package struct ManifestTool: Sendable {
  package var name: String
  package var description: String
  package var parameters: JSON
  package var replay: ReplayPolicyName
  package var executionMode: ExecutionModeName?
  package var prepare: Bool
  package var outputLimits: JSONObject?
  package var structuredOutputSchema: JSON?
  package var callers: Set<ToolCaller>
  package var constrainedSampling: JSON?
  package var deferred: Bool
  package var overrides: Bool
  package var options: CallOptions
  /// What it calls, in a plugin of the runtime `ffi`.
  package var function: ForeignFunction?

  package enum ReplayPolicyName: String, CaseIterable, Sendable { case unsafe, safe }
  package enum ExecutionModeName: String, CaseIterable, Sendable { case parallel, sequential }
}

/// A section of the prompt.
package struct ManifestSection: Sendable {
  package var key: String
  package var tag: Bool
  package var text: String?
  package var options: CallOptions
}

/// Whether a hook or wrap can refuse.
package enum ManifestRole: String, CaseIterable, Sendable {
  case `guard`, observer
}

/// A hook.
package struct ManifestHook: Sendable {
  package var point: String
  package var role: ManifestRole
  package var changes: Bool
  package var tools: [String]
  package var fields: [String]?
  package var order: ContributionOrder
  package var options: CallOptions
}

/// A wrap around a tool or a section.
package struct ManifestWrap: Sendable {
  package var tool: String?
  package var section: String?
  package var role: ManifestRole
  package var order: ContributionOrder
  package var override: WrapOverride?
  package var options: CallOptions
}

/// A durable task type.
package struct ManifestTask: Sendable {
  package var type: String
  package var version: Int
  package var phases: [String]
  package var initial: JSON
  package var migrates: [Int]
  package var inputSchema: JSON?
  package var hooks: [String]
  package var options: CallOptions
}

/// A kind of document.
package struct ManifestDocument: Sendable {
  package enum Scope: String, CaseIterable, Sendable { case session, conversation, task }
  package enum Creation: String, CaseIterable, Sendable { case onUse, withConversation }

  package var kind: String
  package var version: Int
  package var scope: Scope
  package var history: DocumentHistory
  package var fork: DocumentFork
  package var keyed: Bool
  package var initial: JSONObject
  package var base: JSON
  package var migrates: [Int]
  package var create: Creation
}
