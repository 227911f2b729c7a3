import type { VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { unsupported } from './errors.ts';

/** The domain XML of a VMI (spec 72), ready for `virDomainDefineXML`. Throws `ConvertError`. */
export function buildDomainXml(_vmi: VirtualMachineInstance, _context: ConverterContext): string {
  throw unsupported('spec', 'not there yet');
}
