#!/usr/bin/env node
import process from 'node:process';
import { parseArgs } from 'node:util';
import { errorMessage } from '../base/index.ts';
import { PresenceSocket } from '../host/index.ts';

/**
 * What containers of launcher images run so that the node agent finds them, as upstream's program of this name. In the image of a
 * container disk there is no Node.js: there upstream's runs.
 */
const usage = 'usage: container-disk --copy-path PATH (listens on PATH.sock) | --no-op\n';

function socketPath(): string | undefined {
  try {
    const options = { 'copy-path': { type: 'string', short: 'c' }, 'no-op': { type: 'boolean', short: 'n' } } as const;
    const { values } = parseArgs({ options });
    if (values['no-op']) return undefined;
    if (values['copy-path']) return `${values['copy-path']}.sock`;
    process.stderr.write(usage);
  } catch (error) {
    process.stderr.write(`${errorMessage(error)}\n${usage}`);
  }
  process.exitCode = 1;
  return undefined;
}

const path = socketPath();
if (path !== undefined) {
  const socket = new PresenceSocket(path);
  const asked = new Promise<void>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve());
  });
  try {
    await socket.start();
    await Promise.race([socket.removed, asked]);
  } catch (error) {
    process.stderr.write(`container-disk: ${errorMessage(error)}\n`);
    process.exitCode = 1;
  }
  await socket.stop();
}
