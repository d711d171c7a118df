import type { MailTexts } from '../mail-kinds.ts'

export const ES: MailTexts = {
  greeting: 'Hola, {{customer}}:',
  greetingWithoutName: 'Hola:',
  colon: ':',
  order: 'Pedido {{number}}',
  item: 'Artículo',
  total: 'Total',
  refunded: 'Reembolsado',
  each: '{{unit_price}} por unidad',
  moreItems: 'y {{more_items}} más',
  reason: 'Motivo',
  copy: 'Copia',
  trackingNumber: 'número de seguimiento',
  newAddress: 'La dirección de entrega es ahora otra.',
  newBilling: 'La dirección de facturación o el número de IVA es ahora otro.',
  newEmail: 'Los correos sobre este pedido se envían a partir de ahora a esta dirección.',
  seeOrder: 'Ver su pedido',
  open: 'Continuar',
  role: 'Función',
  inviter: 'Invitación de',
  console: 'Consola',
  orderFooter: 'Recibe este correo porque un pedido con esta dirección ha cambiado. Se ha enviado automáticamente.',
  accountFooter: 'Este correo se ha enviado automáticamente. Nunca le pediremos su contraseña por correo.',
  orders: {
    created: {
      subject: 'Hemos recibido su pedido {{number}}',
      heading: 'Gracias por su pedido',
      body: 'Hemos recibido su pedido {{number}} y lo confirmaremos en breve.',
    },
    confirmed: {
      subject: 'Su pedido {{number}} está confirmado',
      heading: 'Su pedido está confirmado',
      body: 'Hemos confirmado su pedido {{number}} y lo estamos preparando.',
    },
    shipped: {
      subject: 'Su pedido {{number}} está en camino',
      heading: 'Su pedido está en camino',
      body: 'Hemos enviado su pedido {{number}}.',
    },
    delivered: {
      subject: 'Su pedido {{number}} ha sido entregado',
      heading: 'Su pedido ha sido entregado',
      body: 'Su pedido {{number}} ha sido entregado. ¡Que lo disfrute!',
    },
    cancelled: {
      subject: 'Su pedido {{number}} está cancelado',
      heading: 'Su pedido está cancelado',
      body: 'Su pedido {{number}} está cancelado y no se enviará.',
    },
    returned: {
      subject: 'Hemos recibido la devolución de su pedido {{number}}',
      heading: 'Hemos recibido su devolución',
      body: 'Hemos registrado la devolución de su pedido {{number}}.',
    },
    amended: {
      subject: 'Su pedido {{number}} se ha modificado',
      heading: 'Su pedido se ha modificado',
      body: 'Hemos modificado su pedido {{number}}:',
    },
    readdressed: {
      subject: 'Los correos sobre su pedido {{number}} se envían a otra dirección',
      heading: 'Otra dirección para los correos',
      body: 'Los correos sobre su pedido {{number}} se envían a partir de ahora a otra dirección de correo.',
      advice: 'Si no lo ha solicitado, póngase en contacto con nosotros.',
    },
    part_shipped: {
      subject: 'Una parte de su pedido {{number}} está en camino',
      heading: '{{subject}}',
      body: 'Hemos enviado estos artículos de su pedido {{number}}:',
    },
    part_cancelled: {
      subject: 'Una parte de su pedido {{number}} está cancelada',
      heading: '{{subject}}',
      body: 'Estos artículos de su pedido {{number}} están cancelados y no se enviarán:',
      now: 'Su pedido es ahora:',
    },
    part_returned: {
      subject: 'Hemos recibido artículos de su pedido {{number}}',
      heading: '{{subject}}',
      body: 'Hemos registrado la devolución de estos artículos de su pedido {{number}}:',
    },
  },
  accounts: {
    verify_email: {
      subject: 'Confirme su dirección de correo electrónico',
      notice:
        'Alguien, esperamos que usted, se ha registrado con esta dirección. La cuenta se creará cuando la confirme con lo siguiente y con la contraseña elegida, en un plazo de 24 horas:',
      advice: 'Si no ha sido usted, no haga nada: sin esa contraseña nadie puede crear la cuenta.',
    },
    reset_password: {
      subject: 'Establezca una contraseña nueva',
      notice:
        'Alguien, esperamos que usted, ha solicitado una contraseña nueva para su cuenta. Establézcala con lo siguiente en un plazo de 30 minutos:',
      advice: 'Si no ha sido usted, no haga nada: su contraseña no cambiará.',
    },
    already_registered: {
      subject: 'Ya tiene una cuenta',
      notice: 'Alguien, esperamos que usted, ha intentado registrarse con esta dirección, que ya tiene una cuenta.',
      advice:
        'Si ha sido usted, inicie sesión o solicite una contraseña nueva si ha olvidado la suya. Si no ha sido usted, no tiene que hacer nada.',
    },
    password_changed: {
      subject: 'Su contraseña se ha cambiado',
      notice: 'La contraseña de su cuenta se acaba de cambiar y se ha cerrado la sesión en los demás dispositivos.',
      advice: 'Si no ha sido usted, solicite de inmediato una contraseña nueva y asegúrese de que nadie más lea su correo.',
    },
    sign_in_linked: {
      subject: 'Ya puede iniciar sesión con un proveedor',
      notice: 'Se acaba de añadir a su cuenta el acceso con un proveedor. A partir de ahora, este proveedor también abre su cuenta.',
      advice:
        'Si no ha sido usted, quite el proveedor de su cuenta, establezca una contraseña nueva y asegúrese de que nadie más lea su correo.',
    },
    sign_in_unlinked: {
      subject: 'Ya no puede iniciar sesión con un proveedor',
      notice: 'Se acaba de quitar de su cuenta el acceso con un proveedor, y se ha cerrado la sesión en los demás dispositivos.',
      advice: 'Si no ha sido usted, cambie su contraseña de inmediato y póngase en contacto con nosotros si no puede iniciar sesión.',
    },
    second_factor_added: {
      subject: 'Se ha añadido una forma de acceso a su cuenta',
      notice: 'Se acaba de añadir una clave de acceso o una aplicación de autenticación a su cuenta.',
      advice:
        'Si no ha sido usted, inicie sesión, elimínela y cambie su contraseña de inmediato. Si no puede iniciar sesión, póngase en contacto con nosotros.',
    },
    second_factor_removed: {
      subject: 'Se ha eliminado una forma de acceso de su cuenta',
      notice:
        'Se acaba de eliminar una clave de acceso o una aplicación de autenticación de su cuenta, y se ha cerrado la sesión en los demás dispositivos.',
      advice: 'Si no ha sido usted, cambie su contraseña de inmediato y póngase en contacto con nosotros si no puede iniciar sesión.',
    },
    second_factor_failed: {
      subject: 'Códigos erróneos en un acceso a su cuenta',
      notice:
        'Alguien ha entrado en su cuenta con la contraseña correcta o con su proveedor, y después ha introducido varias veces un código erróneo de la aplicación de autenticación. No se le ha dejado entrar.',
      advice:
        'Si ha sido usted, espere un poco e introduzca un código nuevo, o use un código de recuperación. Si no ha sido usted, cambie esa contraseña de inmediato: otra persona la conoce.',
    },
    recovery_code_used: {
      subject: 'Se ha utilizado un código de recuperación',
      notice: 'Se acaba de utilizar uno de los códigos de recuperación de su cuenta.',
      advice: 'Si no ha sido usted, cambie su contraseña de inmediato y cree nuevos códigos de recuperación.',
    },
    operator_invited: {
      subject: 'Le invitamos como operador{{#shop}} de {{shop}}{{/shop}}',
      notice: 'Se ha creado una cuenta para usted en la consola{{#shop}} de {{shop}}{{/shop}}, la página de quienes llevan la tienda.',
      task: 'Elija una contraseña en un plazo de 3 días:',
      advice:
        'Más tarde, la página de acceso de la consola le enviará otro enlace. Si no esperaba este correo, no haga nada: sin contraseña nadie puede usar la cuenta.',
    },
    confirm_email: {
      subject: 'Confirme la dirección de correo electrónico de su cuenta',
      notice:
        'Alguien, esperamos que usted, desea usar esta dirección para su cuenta. Inicie sesión en esa cuenta y confirme la dirección con lo siguiente, en un plazo de 24 horas:',
      advice: 'Si no ha sido usted, no haga nada: sin esta confirmación nadie puede usar su dirección para su cuenta.',
    },
    address_in_use: {
      subject: 'Esta dirección ya pertenece a una cuenta',
      notice:
        'Alguien, esperamos que usted, ha querido usar esta dirección para una cuenta. No es posible: otra cuenta la tiene, o la tenía hasta hace unos días.',
      advice:
        'Si ha sido usted, inicie sesión con esta dirección o solicite una contraseña nueva. Si esa otra cuenta tiene ahora otra dirección, esta quedará libre dentro de una semana. Si no ha sido usted, no tiene que hacer nada.',
    },
    email_change_requested: {
      subject: 'Se ha solicitado otra dirección de correo electrónico',
      notice:
        'Alguien, esperamos que usted, ha solicitado otra dirección de correo electrónico para su cuenta. La cuenta la tendrá en cuanto se confirme allí.',
      remedy:
        'Si no ha sido usted, impídalo con lo siguiente. Se cerrará la sesión en todos los dispositivos y usted establecerá una contraseña nueva:',
      advice: 'Si ha sido usted, no haga nada aquí.',
    },
    email_changed: {
      subject: 'Se ha cambiado la dirección de correo electrónico de su cuenta',
      notice:
        'Su cuenta tiene ahora otra dirección de correo electrónico, a la que se envían sus mensajes, y se ha cerrado la sesión en los demás dispositivos.',
      remedy:
        'Si no ha sido usted, recupere su cuenta con lo siguiente, en un plazo de siete días. Se cerrará la sesión en todos los dispositivos y usted establecerá una contraseña nueva:',
      advice: 'Si ha sido usted, no haga nada aquí.',
    },
    email_change_reverted: {
      subject: 'Se ha anulado el cambio de su dirección de correo electrónico',
      notice:
        'La cuenta que tenía esta dirección vuelve a tener la anterior: su titular no estaba de acuerdo con el cambio. Se ha cerrado la sesión en todos los dispositivos.',
      advice: 'Si no lo esperaba, póngase en contacto con nosotros.',
    },
    staff_orders: {
      subject: 'Nuevo pedido {{first}}{{#others}} y {{others}} más{{/others}}',
      body: 'Estos pedidos son nuevos:',
    },
    staff_sold_out: {
      subject: 'Agotado: {{first}}{{#others}} y {{others}} más{{/others}}',
      body: 'Estos productos se han agotado:',
    },
    staff_failed_mails: {
      subject: 'No recibido: {{first}}{{#others}} y {{others}} más{{/others}}',
      body: 'Estos correos no han llegado a los clientes:',
      advice: 'Corrija la dirección en el pedido y vuelva a enviar el correo desde la consola.',
    },
  },
}
