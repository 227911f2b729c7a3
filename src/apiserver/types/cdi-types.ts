import { dataSourceAdmission, dataVolumeAdmission } from '../admission/index.ts';
import type { ApiType } from '../api-type.ts';
import { dataVolumeColumns } from '../print/index.ts';
import { custom } from './kubevirt-types.ts';

const cdi = { group: 'cdi.kubevirt.io', version: 'v1beta1' } as const;

/** Of the containerized data importer (`pkg/apis/core/v1beta1` of its API): what fills claims here, and what `virtctl image-upload` reads. */
export const cdiTypes: readonly ApiType[] = [
  custom({
    ...cdi,
    resource: 'datavolumes',
    kind: 'DataVolume',
    shortNames: ['dv', 'dvs'],
    columns: dataVolumeColumns,
    admission: dataVolumeAdmission,
  }),
  custom({ ...cdi, resource: 'datasources', kind: 'DataSource', shortNames: ['das'], admission: dataSourceAdmission }),
  custom({ ...cdi, resource: 'cdiconfigs', kind: 'CDIConfig', namespaced: false, categories: [] }),
];
