import PerdurePluginHost

/// The process in which one plugin runs.
///
/// It is started by Perdure and speaks with it only.
@main enum Main {
  static func main() {
    RunnerSide.run(CommandLine.arguments) { functions throws(ForeignFailure) in
      try LibraryFunctions(functions)
    }
  }
}
