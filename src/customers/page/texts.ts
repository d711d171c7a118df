import type { components } from '../../../client/src/schema.ts'

type Order = components['schemas']['LinkedOrder']

/** The page's texts. `{}` is replaced with a value. */
interface Texts {
  order: string
  ordered: string
  loading: string
  status: Readonly<Record<Order['status'], string>>
  parcels: string
  parcel: string
  shipped: string
  track: string
  trackingNumber: string
  items: string
  shippedUnits: string
  cancelledUnits: string
  returnedUnits: string
  changes: string
  total: string
  refunded: string
  address: string
  billingAddress: string
  vatNumber: string
  postalCodeWhy: string
  postalCode: string
  showAddress: string
  cancel: string
  cancelWarning: string
  cancelSurely: string
  keep: string
  openFromMail: string
  failures: Readonly<Record<'invalid_order_link' | 'wrong_postal_code' | 'illegal_transition' | 'rate_limited' | 'other', string>>
  retry: string
}

export const TEXTS: Readonly<Record<Order['language'], Texts>> = {
  en: {
    order: 'Order {}',
    ordered: 'Placed on {}',
    loading: 'Your order is loading …',
    status: {
      pending: 'Received',
      confirmed: 'Confirmed',
      shipped: 'On its way',
      delivered: 'Delivered',
      cancelled: 'Cancelled',
      returned: 'Returned',
    },
    parcels: 'Parcels',
    parcel: 'Parcel {}',
    shipped: 'Shipped on {}',
    track: 'Track the parcel',
    trackingNumber: '{carrier}, tracking number {number}',
    items: 'Items',
    shippedUnits: '{} shipped',
    cancelledUnits: '{} cancelled',
    returnedUnits: '{} returned',
    changes: 'Changes',
    total: 'Total',
    refunded: 'Refunded',
    address: 'Delivery address',
    billingAddress: 'Billing address',
    vatNumber: 'VAT number {}',
    postalCodeWhy: 'The address is shown for its postal code, because a mail may be forwarded.',
    postalCode: 'Postal code',
    showAddress: 'Show the address',
    cancel: 'Cancel the order',
    cancelWarning: 'Do you want to cancel the whole order? This cannot be undone.',
    cancelSurely: 'Yes, cancel it',
    keep: 'Keep the order',
    openFromMail: 'Open this page with the link in a mail about your order.',
    failures: {
      invalid_order_link:
        'This link is no longer valid. Links end after 90 days, and when the e-mail or delivery address of the order changes. Use the link in the newest mail about the order, or ask the shop.',
      wrong_postal_code: 'This is not the postal code of the order.',
      illegal_transition: 'The order can no longer be cancelled here. Ask the shop.',
      rate_limited: 'There were too many attempts. Try again later, or ask the shop.',
      other: 'The shop cannot be reached at the moment.',
    },
    retry: 'Try again',
  },
  de: {
    order: 'Bestellung {}',
    ordered: 'Bestellt am {}',
    loading: 'Ihre Bestellung wird geladen …',
    status: {
      pending: 'Eingegangen',
      confirmed: 'Bestätigt',
      shipped: 'Unterwegs',
      delivered: 'Zugestellt',
      cancelled: 'Storniert',
      returned: 'Zurückgesendet',
    },
    parcels: 'Pakete',
    parcel: 'Paket {}',
    shipped: 'Versendet am {}',
    track: 'Sendung verfolgen',
    trackingNumber: '{carrier}, Sendungsnummer {number}',
    items: 'Artikel',
    shippedUnits: '{} versendet',
    cancelledUnits: '{} storniert',
    returnedUnits: '{} zurückgesendet',
    changes: 'Änderungen',
    total: 'Summe',
    refunded: 'Erstattet',
    address: 'Lieferadresse',
    billingAddress: 'Rechnungsadresse',
    vatNumber: 'USt-IdNr. {}',
    postalCodeWhy: 'Die Adresse wird erst nach Eingabe ihrer Postleitzahl angezeigt, denn E-Mails werden manchmal weitergeleitet.',
    postalCode: 'Postleitzahl',
    showAddress: 'Adresse anzeigen',
    cancel: 'Bestellung stornieren',
    cancelWarning: 'Möchten Sie die ganze Bestellung stornieren? Das lässt sich nicht rückgängig machen.',
    cancelSurely: 'Ja, stornieren',
    keep: 'Bestellung behalten',
    openFromMail: 'Öffnen Sie diese Seite über den Link in einer E-Mail zu Ihrer Bestellung.',
    failures: {
      invalid_order_link:
        'Dieser Link ist nicht mehr gültig. Links enden nach 90 Tagen und wenn sich die E-Mail- oder Lieferadresse der Bestellung ändert. Verwenden Sie den Link in der neuesten E-Mail zur Bestellung, oder fragen Sie den Shop.',
      wrong_postal_code: 'Das ist nicht die Postleitzahl der Bestellung.',
      illegal_transition: 'Die Bestellung kann hier nicht mehr storniert werden. Fragen Sie den Shop.',
      rate_limited: 'Das waren zu viele Versuche. Versuchen Sie es später noch einmal, oder fragen Sie den Shop.',
      other: 'Der Shop ist gerade nicht erreichbar.',
    },
    retry: 'Noch einmal versuchen',
  },
  fr: {
    order: 'Commande {}',
    ordered: 'Passée le {}',
    loading: 'Chargement de votre commande…',
    status: {
      pending: 'Reçue',
      confirmed: 'Confirmée',
      shipped: 'En route',
      delivered: 'Livrée',
      cancelled: 'Annulée',
      returned: 'Retournée',
    },
    parcels: 'Colis',
    parcel: 'Colis {}',
    shipped: 'Expédié le {}',
    track: 'Suivre le colis',
    trackingNumber: '{carrier}, numéro de suivi {number}',
    items: 'Articles',
    shippedUnits: 'expédiés : {}',
    cancelledUnits: 'annulés : {}',
    returnedUnits: 'retournés : {}',
    changes: 'Modifications',
    total: 'Total',
    refunded: 'Remboursé',
    address: 'Adresse de livraison',
    billingAddress: 'Adresse de facturation',
    vatNumber: 'Numéro de TVA {}',
    postalCodeWhy: 'L’adresse s’affiche après saisie de son code postal, car un e-mail peut être transféré.',
    postalCode: 'Code postal',
    showAddress: 'Afficher l’adresse',
    cancel: 'Annuler la commande',
    cancelWarning: 'Voulez-vous annuler toute la commande ? Cette action est définitive.',
    cancelSurely: 'Oui, annuler',
    keep: 'Garder la commande',
    openFromMail: 'Ouvrez cette page avec le lien d’un e-mail au sujet de votre commande.',
    failures: {
      invalid_order_link:
        'Ce lien n’est plus valable. Un lien prend fin après 90 jours, ou lorsque l’adresse e-mail ou de livraison de la commande change. Utilisez le lien du dernier e-mail au sujet de la commande, ou contactez la boutique.',
      wrong_postal_code: 'Ce n’est pas le code postal de la commande.',
      illegal_transition: 'La commande ne peut plus être annulée ici. Contactez la boutique.',
      rate_limited: 'Il y a eu trop d’essais. Réessayez plus tard ou contactez la boutique.',
      other: 'La boutique est injoignable pour le moment.',
    },
    retry: 'Réessayer',
  },
  es: {
    order: 'Pedido {}',
    ordered: 'Realizado el {}',
    loading: 'Cargando su pedido…',
    status: {
      pending: 'Recibido',
      confirmed: 'Confirmado',
      shipped: 'En camino',
      delivered: 'Entregado',
      cancelled: 'Cancelado',
      returned: 'Devuelto',
    },
    parcels: 'Paquetes',
    parcel: 'Paquete {}',
    shipped: 'Enviado el {}',
    track: 'Seguir el paquete',
    trackingNumber: '{carrier}, número de seguimiento {number}',
    items: 'Artículos',
    shippedUnits: 'enviados: {}',
    cancelledUnits: 'cancelados: {}',
    returnedUnits: 'devueltos: {}',
    changes: 'Cambios',
    total: 'Total',
    refunded: 'Reembolsado',
    address: 'Dirección de entrega',
    billingAddress: 'Dirección de facturación',
    vatNumber: 'Número de IVA {}',
    postalCodeWhy: 'La dirección se muestra al indicar su código postal, porque un correo puede reenviarse.',
    postalCode: 'Código postal',
    showAddress: 'Mostrar la dirección',
    cancel: 'Cancelar el pedido',
    cancelWarning: '¿Quiere cancelar todo el pedido? No se puede deshacer.',
    cancelSurely: 'Sí, cancelar',
    keep: 'Conservar el pedido',
    openFromMail: 'Abra esta página con el enlace de un correo sobre su pedido.',
    failures: {
      invalid_order_link:
        'Este enlace ya no es válido. Un enlace termina a los 90 días y cuando cambia la dirección de correo o de entrega del pedido. Use el enlace del último correo sobre el pedido o pregunte a la tienda.',
      wrong_postal_code: 'Ese no es el código postal del pedido.',
      illegal_transition: 'El pedido ya no se puede cancelar aquí. Pregunte a la tienda.',
      rate_limited: 'Ha habido demasiados intentos. Vuelva a intentarlo más tarde o pregunte a la tienda.',
      other: 'No se puede contactar con la tienda en este momento.',
    },
    retry: 'Reintentar',
  },
}
