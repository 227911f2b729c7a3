import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadSync, type MessageTypeDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { devicePlugin } from '../../../src/wire/index.ts';

/** The kubelet's API v1beta1: message → fields as `number name type`; a map shows as its entry. */
const fields: Readonly<Record<string, readonly string[]>> = {
  Empty: [],
  DevicePluginOptions: ['1 pre_start_required bool'],
  RegisterRequest: ['1 version string', '2 endpoint string', '3 resource_name string', '4 options DevicePluginOptions'],
  ListAndWatchResponse: ['1 devices repeated Device'],
  Device: ['1 ID string', '2 health string', '3 topology TopologyInfo'],
  TopologyInfo: ['1 nodes repeated NUMANode'],
  NUMANode: ['1 ID int64'],
  AllocateRequest: ['1 container_requests repeated ContainerAllocateRequest'],
  ContainerAllocateRequest: ['1 devicesIDs repeated string'],
  AllocateResponse: ['1 container_responses repeated ContainerAllocateResponse'],
  ContainerAllocateResponse: [
    '1 envs repeated Envs',
    '2 mounts repeated Mount',
    '3 devices repeated DeviceSpec',
    '4 annotations repeated Annotations',
  ],
  Mount: ['1 container_path string', '2 host_path string', '3 read_only bool'],
  DeviceSpec: ['1 container_path string', '2 host_path string', '3 permissions string'],
  PreStartContainerRequest: ['1 devicesIDs repeated string'],
  PreStartContainerResponse: [],
};

const paths = [
  '/v1beta1.Registration/Register',
  '/v1beta1.DevicePlugin/GetDevicePluginOptions',
  '/v1beta1.DevicePlugin/ListAndWatch stream',
  '/v1beta1.DevicePlugin/Allocate',
  '/v1beta1.DevicePlugin/PreStartContainer',
];

interface Descriptor {
  name: string;
  field: { name: string; number: number; type: string; typeName: string; label: string }[];
}

const loaded = Object.entries(loadSync('proto/deviceplugin.proto', { keepCase: true }));

test('proto/deviceplugin.proto has the messages and fields of the kubelet, and no other', () => {
  const found = loaded.flatMap(([, each]) => {
    if (!('fileDescriptorProtos' in each)) return [];
    const { name, field } = (each as MessageTypeDefinition<object, object>).type as unknown as Descriptor;
    return [[name, field.map(describeField)]];
  });
  assert.deepEqual(Object.fromEntries(found), fields);
});

function describeField({ number, name, type, typeName, label }: Descriptor['field'][number]): string {
  const repeated = label === 'LABEL_REPEATED' ? 'repeated ' : '';
  return `${number} ${name} ${repeated}${typeName.split('.').at(-1) || type.replace('TYPE_', '').toLowerCase()}`;
}

test('proto/deviceplugin.proto and the generated code have the methods of the kubelet, ListAndWatch streams', () => {
  const proto = loaded.flatMap(([, each]) =>
    'fileDescriptorProtos' in each ? [] : Object.values(each as ServiceDefinition).map(describeMethod),
  );
  assert.deepEqual(proto, paths);
  const generated = [devicePlugin.RegistrationService, devicePlugin.DevicePluginService].flatMap((service) =>
    Object.values(service).map(describeMethod),
  );
  assert.deepEqual(generated, paths);
});

function describeMethod({ path, responseStream }: { path: string; responseStream: boolean }): string {
  return responseStream ? `${path} stream` : path;
}

test('topology is a list of nodes, byte by byte', () => {
  const message = { devices: [{ ID: '7', health: 'Healthy', topology: { nodes: [{ ID: 1n }] } }] };
  const bytes = Buffer.from(devicePlugin.ListAndWatchResponse.encode(message).finish());
  assert.equal(bytes.toString('hex'), `0a12${'0a0137'}${'12074865616c746879'}${'1a040a020801'}`);
});
