import type { DomainSpec } from '../../api/index.ts';
import { ConvertError } from './errors.ts';

/** The `Spec` of Domain JSON without the launcher's metadata: exactly what libvirt's XML says. */
export type ParsedDomainSpec = Omit<DomainSpec, 'Metadata'>;

/** Reads libvirt's domain XML (`virDomainGetXMLDesc`). Throws `ConvertError` BAD_XML. */
export function parseDomainXml(_xml: string): ParsedDomainSpec {
  throw new ConvertError('BAD_XML', 'not there yet');
}
