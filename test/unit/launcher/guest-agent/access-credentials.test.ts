import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import type { KubeVirtMetadata } from '../../../../src/api/index.ts';
import { silentLogger } from '../../../../src/base/index.ts';
import { AccessCredentials } from '../../../../src/launcher/guest-agent/access-credentials.ts';
import { GuestStore } from '../../../../src/launcher/guest-agent/store.ts';
import { type DomainRef, LibvirtError } from '../../../../src/libvirt/index.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const source = (secretName: string) => ({ secret: { secretName } });
const vmi = launcherVmi({
  spec: {
    accessCredentials: [
      {
        sshPublicKey: {
          source: source('keys'),
          propagationMethod: { qemuGuestAgent: { users: ['root', 'debian'] } },
        },
      },
      { userPassword: { source: source('words'), propagationMethod: { qemuGuestAgent: {} } } },
    ],
  },
});
const success = { Succeeded: true, Message: '' };

let dir: string;
let hypervisor: MemoryHypervisor;
let domain: DomainRef;
let clock: FakeClock;
let guest: GuestStore;
let reports: KubeVirtMetadata['AccessCredential'][];
let credentials: AccessCredentials;

function put(secret: string, key: string, text: string): void {
  const mounted = path.join(dir, `${secret}-access-cred`);
  mkdirSync(mounted, { recursive: true });
  writeFileSync(path.join(mounted, key), text);
}

/** The last report, once there are that many. */
async function reported(times: number): Promise<KubeVirtMetadata['AccessCredential'] | undefined> {
  await eventually(() => assert.equal(reports.length, times));
  return reports.at(-1);
}

/** Longer than one look, and until it has come to its end. */
async function look(): Promise<void> {
  const before = lookups();
  clock.advance(15_001);
  await eventually(() => assert.ok(lookups() > before));
  await eventually(() => assert.equal(clock.timers, 1));
}

const lookups = () => hypervisor.calls.filter((call) => call === 'lookup').length;
const given = () => hypervisor.calls.filter((call) => call === 'setAuthorizedSshKeys').length;

beforeEach(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'credentials-'));
  hypervisor = new MemoryHypervisor();
  clock = new FakeClock();
  guest = new GuestStore();
  reports = [];
  domain = await hypervisor.define('<domain><name>default_small</name></domain>');
  await hypervisor.start(domain, { paused: false });
  hypervisor.agentAnswers = () => ({});
  put('keys', 'anna', 'ssh-ed25519 AAAA anna\n\n ssh-ed25519 BBBB anna\n');
  put('keys', '..data', 'not a key');
  put('words', 'debian', 'secret\n');
  credentials = new AccessCredentials(
    { domainName: 'default_small', secretsDir: dir },
    {
      hypervisor,
      metadata: { updateMetadata: ({ AccessCredential }) => void reports.push(AccessCredential) },
      guest,
      log: silentLogger,
      clock,
    },
  );
});
afterEach(() => {
  credentials.stop();
  rmSync(dir, { recursive: true, force: true });
});

test('keys and passwords go to the users of the guest, and it is reported', async () => {
  credentials.noteVmi(vmi);
  clock.advance(1);
  assert.deepEqual(await reported(1), success);
  const keys = ['ssh-ed25519 AAAA anna', 'ssh-ed25519 BBBB anna'];
  assert.deepEqual(Object.fromEntries(hypervisor.sshKeys), { root: keys, debian: keys });
  assert.deepEqual(Object.fromEntries(hypervisor.passwords), { debian: 'secret' });
});

test('what has not changed is not given a second time before five minutes have passed', async () => {
  credentials.noteVmi(vmi);
  clock.advance(1);
  await reported(1);
  for (let at = 0; at < 19; at++) await look();
  assert.equal(given(), 2);
  await look();
  await reported(2);
  assert.equal(given(), 4);
});

test('a secret that has changed is followed; no key left is no key in the guest', async () => {
  credentials.noteVmi(vmi);
  clock.advance(1);
  await reported(1);
  put('keys', 'anna', '\n');
  put('words', 'root', 'other');
  await look();
  assert.deepEqual(await reported(2), success);
  assert.deepEqual(Object.fromEntries(hypervisor.sshKeys), { root: [], debian: [] });
  assert.deepEqual(Object.fromEntries(hypervisor.passwords), { debian: 'secret', root: 'other' });
});

test('a guest without an agent is reported, and given all at once when the agent is there', async () => {
  hypervisor.agentAnswers = () => {
    throw new LibvirtError('AGENT_UNRESPONSIVE', 'not connected', { libvirtCode: 86, domainCode: 10 });
  };
  credentials.noteVmi(vmi);
  clock.advance(1);
  assert.deepEqual(await reported(1), { Succeeded: false, Message: 'Guest agent is offline' });
  hypervisor.agentAnswers = () => ({});
  credentials.agentChanged(true);
  clock.advance(1);
  assert.deepEqual(await reported(2), success);
});

test('an agent that comes while the guest is given something is not forgotten', async () => {
  hypervisor.agentAnswers = () => {
    credentials.agentChanged(true);
    hypervisor.agentAnswers = () => ({});
    return {};
  };
  credentials.noteVmi(vmi);
  clock.advance(1);
  await reported(1);
  await eventually(() => assert.equal(clock.timers, 1));
  clock.advance(1);
  await reported(2);
  assert.equal(given(), 4);
});

test('what the agent refuses for one user is told, the other user has its keys, and it is tried again', async () => {
  const refusal = new LibvirtError('INTERNAL_ERROR', "user 'root' does not exist", { libvirtCode: 1, domainCode: 10 });
  hypervisor.failures.set('setAuthorizedSshKeys', refusal);
  credentials.noteVmi(vmi);
  clock.advance(1);
  const Message = "SSH keys of user root were not set: user 'root' does not exist";
  assert.deepEqual(await reported(1), { Succeeded: false, Message });
  assert.deepEqual([...hypervisor.sshKeys.keys()], ['debian']);
  assert.deepEqual([...hypervisor.passwords.keys()], ['debian']);
  await look();
  assert.deepEqual(await reported(2), success);
  assert.deepEqual([...hypervisor.sshKeys.keys()], ['debian', 'root']);
});

test('a secret that is not mounted is named', async () => {
  rmSync(path.join(dir, 'words-access-cred'), { recursive: true });
  credentials.noteVmi(vmi);
  clock.advance(1);
  assert.match((await reported(1))?.Message ?? '', /^the secret words cannot be read in the pod: ENOENT/);
});

test('a guest that is paused or frozen is left alone, and given it afterwards', async () => {
  await hypervisor.suspend(domain);
  credentials.noteVmi(vmi);
  clock.advance(1);
  await eventually(() => assert.equal(clock.timers, 1));
  await hypervisor.resume(domain);
  guest.update({ fsFreezeStatus: 'frozen' });
  await look();
  assert.deepEqual(reports, []);
  guest.update({ fsFreezeStatus: 'thawed' });
  await look();
  assert.deepEqual(await reported(1), success);
});

test('of a VMI without credentials for the agent nothing is watched, and nothing after the end', async () => {
  credentials.noteVmi(launcherVmi());
  credentials.agentChanged(true);
  assert.equal(clock.timers, 0);
  credentials.noteVmi(vmi);
  credentials.stop();
  assert.equal(clock.timers, 0);
});
