import { createLogger, errorMessage, systemClock } from '../base/index.ts';
import { ExportServer, type ExportSettings, ExportSettingsError, readExportSettings } from '../export-server/index.ts';

function readSettings(): ExportSettings | undefined {
  try {
    return readExportSettings(process.env);
  } catch (error) {
    if (!(error instanceof ExportSettingsError)) throw error;
    process.stderr.write(`virt-exportserver: ${error.message}\n`);
    process.exitCode = 2;
    return undefined;
  }
}

async function run(settings: ExportSettings): Promise<void> {
  const log = createLogger({ component: 'virt-exportserver', verbosity: 2 });
  const stopping = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(1);
      stopping.abort(new Error(name));
    });
  }
  try {
    await new ExportServer(settings, { log, clock: systemClock }).run(stopping.signal);
  } catch (error) {
    log.fatal({ reason: errorMessage(error) }, 'virt-exportserver cannot run');
    process.exitCode = 1;
  }
}

const settings = readSettings();
if (settings) await run(settings);
