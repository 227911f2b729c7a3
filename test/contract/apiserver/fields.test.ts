import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ApiAnswer } from '../../fixtures/api-client.ts';
import { configMap, pod, type Subject, startSubject, vm, vmi } from './subject.ts';

describe('fields', () => {
  let subject: Subject;
  let maps: string;
  let pods: string;
  let vms: string;
  let vmis: string;

  before(async () => {
    subject = await startSubject();
    ({ maps, pods, vms, vmis } = subject);
  });
  after(() => subject.stop());

  const strict = '?fieldValidation=Strict';
  const odd = (name: string) => vmi(name, { spec: { ...vmi(name).spec, fromTheFuture: { a: 1 } } });
  const refusal = ({ status, body }: ApiAnswer) => [status, body.reason, body.message];
  /** Without the note of a real server that its rules in CEL were not looked at. */
  const causes = ({ body }: ApiAnswer) =>
    body.details.causes
      .map(({ field, reason }: { field: string; reason: string }) => [field, reason])
      .filter(([field]: string[]) => field !== '<nil>');

  test('under strict validation an unknown field is refused in words that name it', async () => {
    assert.deepEqual(refusal(await subject.client.post(vmis + strict, odd('strict'))), [
      400,
      'BadRequest',
      'VirtualMachineInstance in version "v1" cannot be handled as a VirtualMachineInstance: strict decoding error: unknown field "spec.fromTheFuture"',
    ]);
    const map = await subject.client.post(maps + strict, configMap('strict', { date: {} }));
    assert.deepEqual(refusal(map), [
      400,
      'BadRequest',
      'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "date"',
    ]);
    const deep = pod('strict', { spec: { containers: [{ name: 'a', image: 'b', imag: 'c' }] } });
    assert.match(
      (await subject.client.post(pods + strict, deep)).body.message,
      /unknown field "spec\.containers\[0\]\.imag"$/,
    );
  });

  test('by default it is dropped with a warning, and without a word when nothing is asked for', async () => {
    const warned = await subject.client.post(vmis, odd('warned'));
    assert.deepEqual([warned.status, warned.body.spec.fromTheFuture], [201, undefined]);
    assert.equal(warned.headers.warning, '299 - "unknown field \\"spec.fromTheFuture\\""');
    const silent = await subject.client.post(`${vmis}?fieldValidation=Ignore`, odd('silent'));
    assert.deepEqual(
      [silent.status, silent.headers.warning, silent.body.spec.fromTheFuture],
      [201, undefined, undefined],
    );
  });

  test('what is known is taken without a warning, deep down and below free fields', async () => {
    const clock = { utc: {}, anything: { at: 'all' } };
    const domain = { devices: { disks: [{ name: 'a', disk: { bus: 'virtio' } }] }, memory: { guest: '64Mi' }, clock };
    const volumes = [{ name: 'a', emptyDisk: { capacity: '1Mi' } }];
    const { status, headers, body } = await subject.client.post(
      vmis + strict,
      vmi('known', { spec: { domain, volumes } }),
    );
    assert.deepEqual([status, headers.warning, body.spec?.domain.clock], [201, undefined, clock]);
  });

  test('a member that a body has twice counts as unknown: refused, or the last one is taken with a warning', async () => {
    const twice = (name: string) =>
      JSON.stringify(vm(name)).replace('"runStrategy":"Halted"', '"runStrategy":"Always","runStrategy":"Halted"');
    const refused = await subject.client.post(vms + strict, twice('twice'));
    assert.match(refused.body.message, /strict decoding error: duplicate field "spec\.runStrategy"$/);
    const warned = await subject.client.post(vms, twice('twice'));
    assert.deepEqual([warned.status, warned.headers.warning], [201, '299 - "duplicate field \\"spec.runStrategy\\""']);
    assert.equal(warned.body.spec.runStrategy, 'Halted');
  });

  test('a patch and a PUT are held to the same', async () => {
    await subject.client.post(vms, vm('changed'));
    const patched = await subject.client.patch(`${vms}/changed${strict}`, 'merge', { spec: { autostart: true } });
    assert.deepEqual([patched.status, patched.body.reason], [422, 'Invalid']);
    assert.match(
      patched.body.message,
      /patch: Invalid value: .*strict decoding error: unknown field "spec\.autostart"$/s,
    );
    const warned = await subject.client.patch(`${vms}/changed`, 'merge', { spec: { autostart: true } });
    assert.deepEqual([warned.status, warned.headers.warning], [200, '299 - "unknown field \\"spec.autostart\\""']);
    const { body } = await subject.client.get(`${vms}/changed`);
    const put = await subject.client.put(`${vms}/changed${strict}`, { ...body, sepc: {} });
    assert.deepEqual([put.status, put.body.reason], [400, 'BadRequest']);
  });

  test('a policy that there is not is refused', async () => {
    const { status, body } = await subject.client.post(`${maps}?fieldValidation=Mostly`, configMap('policy'));
    assert.deepEqual([status, body.reason], [422, 'Invalid']);
    assert.match(body.message, /fieldValidation: .*"Mostly": supported values: "", "Ignore", "Strict", "Warn"/);
  });

  test('values that a schema refuses are told with field and reason', async () => {
    const spec = { domain: { devices: { disks: {} }, cpu: { cores: 'x' } }, volumes: [null] };
    const types = await subject.client.post(vmis, vmi('types', { spec }));
    assert.deepEqual([types.status, types.body.reason], [422, 'Invalid']);
    assert.deepEqual(causes(types).sort(), [
      ['spec.domain.cpu.cores', 'FieldValueTypeInvalid'],
      ['spec.domain.devices.disks', 'FieldValueTypeInvalid'],
      ['spec.volumes[0]', 'FieldValueTypeInvalid'],
    ]);
    assert.match(
      types.body.message,
      /spec\.domain\.cpu\.cores: Invalid value: "string": spec\.domain\.cpu\.cores in body must be of type /,
    );
    const empty = await subject.client.post(vmis, vmi('empty', { spec: { domain: null } }));
    assert.equal(empty.status, 422);
    const missing = { devices: { disks: [{}] }, memory: { guest: '64Mi' } };
    assert.deepEqual(causes(await subject.client.post(vmis, vmi('missing', { spec: { domain: missing } }))), [
      ['spec.domain.devices.disks[0].name', 'FieldValueRequired'],
    ]);
    const many = { devices: { disks: Array.from({ length: 257 }, (_, index) => ({ name: `d${index}` })) } };
    assert.deepEqual(causes(await subject.client.post(vmis, vmi('many', { spec: { domain: many } })))[0], [
      'spec.domain.devices.disks',
      'FieldValueTooMany',
    ]);
  });

  test('what Go could not read of a built-in type is a bad request that names the field', async () => {
    const { status, body } = await subject.client.post(
      pods,
      pod('wrong', { spec: { terminationGracePeriodSeconds: 'soon' } }),
    );
    assert.deepEqual([status, body.reason], [400, 'BadRequest']);
    assert.match(body.message, /Pod in version "v1" cannot be handled as a Pod: .*terminationGracePeriodSeconds/);
  });

  test('null means no value where a definition does not allow it', async () => {
    const { status, body } = await subject.client.post(
      vmis,
      vmi('null', { spec: { ...vmi('x').spec, hostname: null } }),
    );
    assert.deepEqual([status, 'hostname' in body.spec], [201, false]);
  });

  test('null means the empty value in a built-in type', async () => {
    const { status, body } = await subject.client.post(
      pods,
      pod('null', { spec: { hostname: null, nodeSelector: null } }),
    );
    assert.deepEqual([status, body.spec?.hostname], [201, undefined]);
    assert.ok(!('nodeSelector' in body.spec));
  });

  test('a pod without an image and a service without ports are refused by name of the field', async () => {
    const imageless = pod('bad', { spec: { containers: [{ name: 'a' }] } });
    assert.deepEqual(causes(await subject.client.post(pods, imageless)), [
      ['spec.containers[0].image', 'FieldValueRequired'],
    ]);
    const services = pods.replace('pods', 'services');
    const service = (ports: object[]) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 's' },
      spec: { ports },
    });
    assert.deepEqual(causes(await subject.client.post(services, service([]))), [['spec.ports', 'FieldValueRequired']]);
    const beyond = await subject.client.post(services, service([{ port: 70_000 }]));
    assert.equal(causes(beyond)[0][0], 'spec.ports[0].port');
    const twice = await subject.client.post(
      services,
      service([
        { port: 80, name: 'a' },
        { port: 80, name: 'b' },
      ]),
    );
    assert.deepEqual(causes(twice), [['spec.ports[1]', 'FieldValueDuplicate']]);
  });
});
