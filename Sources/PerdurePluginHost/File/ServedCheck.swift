internal import PerdureModel
import PerdureValue

/// What load and inspection refuse alike, before any code of the plugin runs.
extension PluginFiles {
  /// Throws if the manifest asks for what this version cannot do.
  static func checkServed(_ manifest: Manifest, _ path: String) throws(PerdureError) {
    for name in manifest.requiredInterfaces where !interfaces.contains(name) {
      throw refused(
        path,
        "requires the interface \(name), which this host lacks",
        "use a newer host or make the interface optional"
      )
    }
  }

  /// Throws if a tool has parameters that cannot be checked here.
  static func checkSchemas(
    _ manifest: Manifest,
    _ path: String,
    _ checkSchema: (JSON) throws -> Void
  ) throws(PerdureError) {
    for tool in manifest.tools {
      do {
        try checkSchema(tool.parameters)
        if let schema = tool.structuredOutputSchema { try checkSchema(schema) }
      } catch {
        let reason = (error as? PerdureError)?.message ?? "\(error)"
        throw refused(
          path,
          "has a tool \(tool.name) whose parameters cannot be checked here: \(reason)",
          "change the JSON Schema of the tool's parameters"
        )
      }
    }
    for task in manifest.tasks {
      guard let schema = task.inputSchema else { continue }
      do { try checkSchema(schema) } catch {
        let reason = (error as? PerdureError)?.message ?? "\(error)"
        throw refused(
          path,
          "has a task type \(task.type) whose inputs cannot be checked here: \(reason)",
          "change the JSON Schema of the task's input"
        )
      }
    }
  }
}
