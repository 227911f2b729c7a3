#!/usr/bin/env node
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { createLogger, errorMessage } from '../base/index.ts';
import {
  Launcher,
  LauncherError,
  type LauncherOptions,
  launcherEnvironment,
  launcherUsage,
  parseLauncherFlags,
} from '../launcher/index.ts';

/** What upstream's panics end with. */
const failed = 2;
const exitLimitMs = 2000;
/** The kubelet puts it into the pod's status. There is one in a cluster's pods only. */
const messageFile = '/dev/termination-log';
/** As much as the kubelet reads of it. */
const messageBytes = 4096;
/** For the monitor, which takes it away; the standalone node has none in between. */
const monitorFlag = '--keep-after-failure';

function readFlags(): LauncherOptions | undefined {
  try {
    const argv = process.argv.slice(2).filter((argument) => argument !== monitorFlag);
    const parsed = parseLauncherFlags(argv);
    if (parsed.kind === 'options') return parsed.options;
    process.stdout.write(parsed.text);
  } catch (error) {
    process.stderr.write(`${errorMessage(error)}\n${launcherUsage()}`);
    fail(error);
  }
  return undefined;
}

function fail(error: unknown): void {
  process.exitCode = failed;
  try {
    // The kubelet would keep the end of a longer one.
    writeFileSync(messageFile, Buffer.from(`${errorMessage(error)}\n`).subarray(0, messageBytes), { flag: 'r+' });
  } catch {
    // The log has it.
  }
}

async function main(flags: LauncherOptions): Promise<void> {
  const verbosity = Number(process.env.VIRT_LAUNCHER_LOG_VERBOSITY ?? flags.verbosity);
  const log = createLogger({ component: 'virt-launcher', verbosity: Number.isFinite(verbosity) ? verbosity : 2 });
  const ids = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const environment = launcherEnvironment(process.env, ids);
  process.umask(0o022);
  const launcher = new Launcher(
    { flags, environment },
    { log, signalProcess: (pid, signal) => process.kill(pid, signal) },
  );
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM', 'SIGQUIT'] as const) {
    process.on(signal, () => launcher.terminate());
  }
  try {
    await launcher.run();
    log.info('Exiting...');
  } catch (error) {
    const code = error instanceof LauncherError ? error.code : undefined;
    log.error({ code, err: errorMessage(error) }, 'virt-launcher failed');
    fail(error);
  }
  // Nothing is left that would keep the process; should something hang all the same, the pod must not wait for it.
  setTimeout(() => process.exit(), exitLimitMs).unref();
}

const flags = readFlags();
if (flags) void main(flags);
