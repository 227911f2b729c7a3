import './small-heap.ts';
import { makeRelay, parseRelayOptions, type RelayOptions, relayUsage } from '../agent/migration-proxy/index.ts';
import { createLogger, errorMessage, FlagError } from '../base/index.ts';

function readOptions(): RelayOptions | undefined {
  try {
    const options = parseRelayOptions(process.argv.slice(2));
    if (!options) process.stdout.write(relayUsage());
    return options;
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    process.stderr.write(`${error.message}\n${relayUsage()}`);
    process.exitCode = 2;
    return undefined;
  }
}

async function run(options: RelayOptions): Promise<void> {
  const log = createLogger({ component: 'virt-migration-relay', verbosity: options.verbosity });
  const leaving = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      if (leaving.signal.aborted) process.exit(1);
      leaving.abort(new Error(name));
    });
  }
  try {
    const relay = makeRelay(options, { pid: process.pid, log });
    await relay.start(leaving.signal);
    if (!leaving.signal.aborted) {
      await new Promise((resolve) => leaving.signal.addEventListener('abort', resolve, { once: true }));
    }
    await relay.leave(options.gracefulShutdownMs);
    await relay.stop();
    log.info({}, 'left');
  } catch (error) {
    log.fatal({ reason: errorMessage(error) }, 'virt-migration-relay cannot run');
    process.exitCode = 2;
  }
}

const options = readOptions();
if (options) await run(options);
