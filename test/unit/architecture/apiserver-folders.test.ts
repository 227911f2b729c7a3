import { checkFolderRules } from '../../fixtures/folder-rules.ts';

/** The outside as requests see it. */
const ports = ['pod-exec.ts', 'pod-logs.ts', 'upload-tokens.ts', 'usage.ts', 'vm-subresources.ts'];

checkFolderRules({
  root: 'src/apiserver',
  mayImport: {
    patch: [],
    print: [],
    admission: [],
    store: [],
    schema: [],
    apply: ['schema'],
    types: ['admission', 'patch', 'print'],
    objects: ['admission', 'apply', 'schema', 'store'],
    controllers: ['objects', 'store', 'types'],
    rest: [...ports, 'objects', 'patch', 'print', 'schema', 'store', 'types'],
  },
  /** What every folder knows: what a resource, an object, an error and a right are. */
  shared: ['access.ts', 'api-type.ts', 'errors.ts', 'object.ts'],
  /** The contract of a type names its patch schema. */
  sharedMayImport: ['patch'],
});
