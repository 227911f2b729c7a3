import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { DomainEvents } from '../../../../src/launcher/lifecycle/domain-events.ts';
import { MetadataCache } from '../../../../src/launcher/lifecycle/metadata.ts';
import { panicMessage, readPanicInfo } from '../../../../src/launcher/lifecycle/panic-log.ts';
import type { LauncherEvent } from '../../../../src/launcher/ports.ts';
import type { DomainRef } from '../../../../src/libvirt/index.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const panicLine =
  "2026-01-01 00:00:00.000+0000: panic hyper-v: arg1='0x1a', arg2='0x0', arg3='0x3', arg4='0x4', arg5='0x5'";

let dir: string;
let logFile: string;
let hypervisor: MemoryHypervisor;
let domain: DomainRef;
let acts: string[];
let sent: LauncherEvent[];
let panics: unknown[];
let events: DomainEvents;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'events-'));
  logFile = path.join(dir, 'd.log');
  hypervisor = new MemoryHypervisor();
  const disk = "<disk type='file' device='disk'><target dev='vda'/><alias name='ua-root'/></disk>";
  const os = "<os><type arch='x86_64' machine='q35'>hvm</type></os>";
  domain = await hypervisor.define(
    `<domain type='qemu'><name>default_small</name>${os}<devices>${disk}</devices></domain>`,
  );
  [acts, sent, panics] = [[], [], []];
  const act = (name: string) => (value?: unknown) => void acts.push(value === undefined ? name : `${name} ${value}`);
  events = new DomainEvents(
    { domainName: 'default_small', qemuLogFile: logFile },
    {
      hypervisor,
      notifier: { trigger: act('trigger'), sendEvent: (event) => sent.push(event) },
      reader: { notePanic: (info) => panics.push(info) },
      poller: { agentChanged: act('agent'), guestSuspended: act('suspended'), guestResumed: act('resumed') },
      credentials: { agentChanged: act('credentials') },
      qemu: { noteStarted: act('started'), noteStopped: act('stopped') },
      metadata: new MetadataCache({ file: '/dev/null/none' }, { log: silentLogger }),
      log: silentLogger,
    },
  );
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const lifecycle = (event: number, detail: number) => events.handle({ kind: 'lifecycle', domain, event, detail });

test('a definition and a migrated start are additions, everything else is a modification', () => {
  lifecycle(0, 0);
  lifecycle(0, 1);
  lifecycle(2, 1);
  lifecycle(2, 0);
  assert.deepEqual(acts, [
    ...['trigger ADDED', 'trigger MODIFIED', 'started', 'trigger ADDED', 'started', 'trigger MODIFIED'],
  ]);
});

test('the end of QEMU stops the poller and starts the watch for its process', () => {
  lifecycle(5, 1);
  assert.deepEqual(acts, ['agent false', 'stopped', 'trigger MODIFIED']);
});

test('events of another domain change nothing', () => {
  events.handle({ kind: 'agent', domain: { ...domain, name: 'default_other' }, connected: true });
  events.handle({ kind: 'changed', domain: { ...domain, name: 'default_other' } });
  assert.deepEqual(acts, []);
});

test('changed facts and a connection trigger nothing before there was a domain, and the state afterwards', async () => {
  events.factsChanged();
  events.handle({ kind: 'connected' });
  await settle();
  assert.deepEqual(acts, []);
  events.handle({ kind: 'changed', domain });
  events.factsChanged();
  events.handle({ kind: 'connected' });
  await eventually(() =>
    assert.deepEqual(acts, ['trigger MODIFIED', 'trigger MODIFIED', 'trigger MODIFIED', 'stopped']),
  );
});

test('after an outage a domain that runs is started, one that is gone is stopped', async () => {
  events.handle({ kind: 'changed', domain });
  await hypervisor.start(domain, { paused: false });
  events.handle({ kind: 'connected' });
  await eventually(() => assert.equal(acts.at(-1), 'started'));
  hypervisor.domains.clear();
  events.handle({ kind: 'connected' });
  await eventually(() => assert.equal(acts.at(-1), 'stopped'));
});

test('a pause by an I/O error names volume and cause', async () => {
  lifecycle(3, 2);
  await eventually(() => assert.equal(sent.length, 1));
  assert.deepEqual(sent[0], {
    reason: 'IOerror',
    type: 'Warning',
    message: 'VM paused due to no space left on the device on volume root',
  });
  assert.deepEqual(acts, ['suspended', 'trigger MODIFIED']);
});

test("a final panic is reported once, a handled one each time, with what QEMU's log says", async () => {
  writeFileSync(logFile, `noise\n${panicLine}\nmore\n`);
  lifecycle(8, 0);
  await eventually(() => assert.equal(sent.length, 1));
  lifecycle(8, 0);
  lifecycle(8, 1);
  await eventually(() => assert.equal(sent.length, 2));
  assert.equal(sent[0]?.message, "GuestPanicked: '0x1a', '0x0', '0x3', '0x4', '0x5'");
  assert.deepEqual(panics[0], { Type: 'hyper-v', Arg1: 26, Arg2: 0, Arg3: 3, Arg4: 4, Arg5: 5 });
});

test('a log that is missing, huge or without a panic gives "details unavailable"', async () => {
  assert.deepEqual(await readPanicInfo(logFile), { Type: 'unknown' });
  writeFileSync(logFile, `${panicLine}\n${'x'.repeat(200_000)}`);
  assert.equal(panicMessage(await readPanicInfo(logFile)), 'GuestPanicked (details unavailable)');
  writeFileSync(logFile, 'panic s390: core=0\n');
  assert.equal(panicMessage(await readPanicInfo(logFile)), 'GuestPanicked: type=s390');
});
