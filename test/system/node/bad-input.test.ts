import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { findCondition, type VirtualMachineInstance } from '../../../src/api/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

describe('what cannot run says what to do', { skip: needsRoot }, () => {
  let node: NodeProcess;
  let qemu: number | undefined;

  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(demoVmi('bystander'));
    await node.vmiUntil('bystander', (vmi) => vmi?.status?.phase === 'Running');
    qemu = await node.qemuPid('bystander');
  });
  after(async () => {
    const found = await node.qemuPid('bystander');
    await node.dispose();
    assert.equal(found, qemu, 'another VM was affected');
  });

  const problemOf = (vmi: VirtualMachineInstance | undefined) => {
    const condition = findCondition(vmi?.status?.conditions, 'Synchronized');
    return condition?.status === 'False' ? `${condition.reason}: ${condition.message}` : '';
  };
  const events = async () => node.kubectl('get', 'events', '-o', 'json');

  test('an image that is not on the node: condition and event name its directory, and it starts once the image is there', async () => {
    const vmi = demoVmi('no-image');
    const boot = vmi.spec.domain.firmware?.kernelBoot?.container;
    assert.ok(boot);
    boot.image = 'registry.example/team/guest:1';
    await node.apply(vmi);
    const waiting = await node.vmiUntil('no-image', (found) => problemOf(found) !== '');
    assert.match(problemOf(waiting), /ErrImagePull: .*registry\.example%2Fteam%2Fguest%3A1.*virt-node image add/);
    await eventually(async () => assert.match(await events(), /registry\.example%2Fteam%2Fguest%3A1/));
    const added = await node.cli(['image', 'add', boot.image, `${node.paths.imagesDir}/virt-node%2Fdemo`]);
    assert.equal(added.code, 0, added.stderr);
    await node.vmiUntil('no-image', (found) => found?.status?.phase === 'Running');
    await node.kubectl('delete', 'vmi', 'no-image');
  });

  test('cloud-init that cannot be decoded: condition and event', async () => {
    const vmi = demoVmi('bad-cloud-init');
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'init', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'init', cloudInitNoCloud: { userDataBase64: '%%% no base64 %%%' } }];
    const said = await node.apply(vmi).catch((error: Error) => error.message);
    const refused = /userDataBase64/.test(said);
    const shown = refused ? said : problemOf(await node.vmiUntil('bad-cloud-init', (found) => problemOf(found) !== ''));
    assert.match(shown, /base64/i);
    await node.kubectl('delete', 'vmi', 'bad-cloud-init', '--ignore-not-found');
  });

  test('cloud-init from a secret that does not exist: the pod waits and says which', async () => {
    const vmi = demoVmi('no-secret');
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'init', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'init', cloudInitNoCloud: { secretRef: { name: 'nowhere' } } }];
    await node.apply(vmi);
    await eventually(async () => assert.match(await events(), /secret default\/nowhere does not exist: create it/));
    await node.kubectl('create', 'secret', 'generic', 'nowhere', '--from-literal=userdata=#!/bin/sh');
    await node.vmiUntil('no-secret', (found) => found?.status?.phase === 'Running');
    await node.kubectl('delete', 'vmi', 'no-secret');
  });

  test('a VMI without disks and kernel runs, and a condition and an event say that there is nothing to boot', async () => {
    const vmi = demoVmi('nothing');
    vmi.spec.domain = { memory: { guest: '64Mi' }, devices: {} };
    delete vmi.spec.networks;
    await node.apply(vmi);
    const found = await node.vmiUntil('nothing', (seen) => seen?.status?.phase === 'Running');
    assert.match(findCondition(found?.status?.conditions, 'NothingToBoot')?.message ?? '', /no disk, no kernel/);
    await eventually(async () => assert.match(await events(), /"reason": "NothingToBoot"/));
    await node.kubectl('delete', 'vmi', 'nothing');
  });

  test('fields that nobody here knows are refused by name, and nothing of the VMI is stored', async () => {
    const vmi = demoVmi('unknown-fields') as VirtualMachineInstance & { spec: Record<string, unknown> };
    vmi.spec.fromTheFuture = { answer: 42 };
    await assert.rejects(node.apply(vmi), /strict decoding error: unknown field "spec\.fromTheFuture"/);
    assert.equal(await node.kubectl('get', 'vmi', 'unknown-fields', '--ignore-not-found'), '');
  });

  test('a persistent volume claim: the standalone node has none and says what to use', async () => {
    const vmi = demoVmi('claim');
    vmi.spec.domain.devices = { ...vmi.spec.domain.devices, disks: [{ name: 'data', disk: { bus: 'virtio' } }] };
    vmi.spec.volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
    await node.apply(vmi);
    await eventually(async () => assert.match(await events(), /PersistentVolumeClaim|persistentVolumeClaim/i));
    await node.kubectl('delete', 'vmi', 'claim');
  });
});
