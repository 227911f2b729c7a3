#!/usr/bin/env node
import process from 'node:process';
import { errorMessage } from '../base/index.ts';
import { askGuest, parseProbeFlags, probeUsage } from '../launcher/probe/index.ts';

/** The kubelet only looks whether it is 0, and shows what was written. */
const failed = 1;

async function main(): Promise<number> {
  const question = parseProbeFlags(process.argv.slice(2));
  if (!question) {
    process.stdout.write(probeUsage());
    return 0;
  }
  const { exitCode, stdout } = await askGuest(question);
  process.stdout.write(stdout);
  return exitCode;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`virt-probe: ${errorMessage(error)}\n`);
  process.exitCode = failed;
}
