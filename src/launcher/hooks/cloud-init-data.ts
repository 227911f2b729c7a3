import { isRecord, memberAt } from '../../base/index.ts';
import type { CloudInitData } from '../disks/index.ts';

interface Message {
  readonly cloudInitData: Buffer;
  readonly cloudInitNoCloudSource: Buffer;
}

/** Member of upstream's CloudInitData (pkg/cloud-init), which has the names of its Go fields. */
const metaDataMembers = { noCloud: 'NoCloudMetaData', configDrive: 'ConfigDriveMetaData' } as const;

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

export function cloudInitMessage({ kind, metaData, userData, networkData }: CloudInitData): Message {
  return {
    cloudInitData: json({
      DataSource: kind,
      NoCloudMetaData: null,
      ConfigDriveMetaData: null,
      UserData: userData,
      NetworkData: networkData,
      DevicesData: null,
      VolumeName: '',
      [metaDataMembers[kind]]: metaData,
    }),
    cloudInitNoCloudSource: json({ userData, networkData }),
  };
}

/** An old sidecar changes the older message alone. Undefined: neither can be used. */
export function readCloudInitData(message: Message, before: CloudInitData): CloudInitData | undefined {
  const value = parsed(message.cloudInitData);
  const userData = memberAt(value, 'UserData');
  const metaData = memberAt(value, metaDataMembers[before.kind]);
  if (typeof userData === 'string' && userData !== '' && isRecord(metaData)) {
    return { ...before, metaData, userData, networkData: textOf(memberAt(value, 'NetworkData')) };
  }
  const source = parsed(message.cloudInitNoCloudSource);
  if (!isRecord(source)) return undefined;
  return { ...before, userData: textOf(source.userData), networkData: textOf(source.networkData) };
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : '');

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'));
  } catch {
    return undefined;
  }
}
