<?php
/** Registers the module with Magento. */
declare(strict_types=1);

use Magento\Framework\Component\ComponentRegistrar;

ComponentRegistrar::register(ComponentRegistrar::MODULE, 'Stockhold_Reservation', __DIR__);
