import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import type { DeviceSource } from '../../../../../src/agent/node/devices/device-source.ts';
import { RunningPlugin } from '../../../../../src/agent/node/devices/running-plugin.ts';
import { silentLogger } from '../../../../../src/base/index.ts';
import { DevicePlugins } from '../../../../../src/device-plugin/index.ts';
import { PathWatch } from '../../../../../src/host/index.ts';
import { eventually } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

/** Devices are files of one directory. One appears after the first scan has read it, and before it is watched. */
class LateDevice implements DeviceSource {
  readonly rescanMs = undefined;
  readonly #directory: string;
  scans = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  get #file(): string {
    return path.join(this.#directory, 'device');
  }

  async scan() {
    this.scans++;
    return existsSync(this.#file) ? [{ id: 'device', isHealthy: true }] : [];
  }

  async allocate() {
    return {};
  }

  watchedPaths() {
    writeFileSync(this.#file, '');
    return { directories: [this.#directory] };
  }
}

test('a path that is watched anew is scanned once more: what happened there before made no event', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'running-plugin-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const directory = path.join(root, 'devices');
  mkdirSync(directory);
  const clock = new FakeClock();
  const watch = new PathWatch({}, { clock });
  const plugins = new DevicePlugins({ directory: path.join(root, 'kubelet') }, { watch, clock, log: silentLogger });
  const source = new LateDevice(directory);
  const planned = { resource: 'example.com/late', socketName: 'late.sock', version: '1', source: () => source };
  const plugin = new RunningPlugin(planned, { plugins, watch, onUsable: () => undefined, clock, log: silentLogger });
  t.after(async () => {
    await plugin.remove();
    await plugins.stop();
    watch.close();
  });
  plugin.scanSoon();
  await eventually(() => assert.equal(plugin.report().healthy, 1));
  assert.equal(source.scans, 2, 'nothing new is watched after the second scan: there is no third');
});
